"""What a forked process can do after its parent has used several threads."""

import os
import signal
import subprocess
import sys
import textwrap
import threading
from contextlib import suppress

import pytest

from spacy_sapbert.forking import EditLock
from spacy_sapbert.snapshot import LRUCache

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no forks")
SCRIPT = textwrap.dedent("""
    import os, sys
    import numpy as np
    import torch
    from spacy_sapbert.encoder.shim import EncoderShim

    torch.set_num_threads(4)
    shim = EncoderShim({}, "fp32")
    shim.load(sys.argv[1])
    # So many that PyTorch and the tokenizer share the work among threads.
    names = [f"acute pain of type {number}" for number in range(3000)]
    vectors = shim.encode(names, batch_size=3000)
    child = os.fork()
    if not child:
        same = np.allclose(shim.encode(names, batch_size=3000), vectors, atol=1e-5)
        os._exit(0 if same and torch.get_num_threads() == 1 else 1)
    assert torch.get_num_threads() == 4
    sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
""")


def test_a_forked_process_encodes_after_its_parent_has_used_several_threads(encoder_folder, tmp_path):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT, encoding="utf8")
    command = [sys.executable, str(script), str(encoder_folder)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True)
    try:
        output, _ = process.communicate(timeout=120)
    finally:
        # A child that hangs would outlive its parent.
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    assert process.returncode == 0, output.decode()


@pytest.mark.parametrize("owner", [LRUCache(3), EditLock()], ids=["cache", "edits"])
def test_a_lock_that_another_thread_holds_at_the_fork_is_free_in_the_child(owner):
    is_held, may_end = threading.Event(), threading.Event()

    def hold():
        with owner._lock:
            is_held.set()
            may_end.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    is_held.wait()
    child = os.fork()
    if not child:
        # Not by using the owner, which would wait forever where the lock is not free.
        os._exit(0 if owner._lock.acquire(blocking=False) else 1)
    may_end.set()
    thread.join()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
