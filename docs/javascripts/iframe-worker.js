// Browsers start no worker for a page that is opened from disk. There, the search runs in a hidden frame instead, which
// looks like a worker from inside and from outside. Material for MkDocs asks for the name `IFrameWorker`.
(() => {
  class IFrameWorker extends EventTarget {
    constructor(url) {
      super();
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      document.body.append(this.frame);
      const inside = this.frame.contentWindow;
      const address = new URL(url, location);
      inside.document.write("<!doctype html><body></body>");
      inside.document.close();
      inside.postMessage = (data) => {
        const event = new MessageEvent("message", { data: structuredClone(data) });
        this.dispatchEvent(event);
        this.onmessage?.(event);
      };
      const load = (source) =>
        new Promise((resolve, reject) => {
          const script = inside.document.createElement("script");
          Object.assign(script, { src: new URL(source, address).href, onload: resolve, onerror: reject });
          inside.document.body.append(script);
        });
      inside.importScripts = async (...sources) => {
        for (const source of sources) await load(source);
      };
      this.ready = load(address);
    }

    postMessage(data) {
      const event = new MessageEvent("message", { data: structuredClone(data) });
      this.ready.then(() => this.frame.contentWindow.dispatchEvent(event));
    }

    terminate() {
      this.frame.remove();
    }
  }

  window.IFrameWorker = IFrameWorker;
  if (location.protocol === "file:") window.Worker = IFrameWorker;
})();
