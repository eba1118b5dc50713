"""Write a made-up release with the form of RxNorm: RXNCONSO and RXNREL of the drugs in drugs/products.tsv. Names and
relations have RxNorm's form, ids are invented."""

from itertools import count
from pathlib import Path

from rrf_files import atom, rrf_line, write_release

PRODUCTS = Path(__file__).parent / "drugs" / "products.tsv"
FIRST_ID = 90_000_000
INVERSE = {
    "tradename_of": "has_tradename",
    "form_of": "has_form",
    "part_of": "has_part",
    "has_ingredient": "ingredient_of",
    "has_precise_ingredient": "precise_ingredient_of",
    "has_dose_form": "dose_form_of",
    "consists_of": "constitutes",
    "isa": "inverse_isa",
}
SYNONYMS = {
    "amoxicillin / clavulanate": ["amoxiclav"],
    "aspirin": ["ASA", "acetylsalicylic acid"],
    "acetaminophen": ["APAP", "paracetamol"],
}
PACKS = ["{6 (azithromycin 250 MG Oral Tablet) } Pack", "{21 (prednisone 5 MG Oral Tablet) } Pack"]


class _Release:
    def __init__(self):
        self.ids = {}
        self.atoms = []
        self.relations = {}
        self._next = count(FIRST_ID)

    def add(self, name, kind):
        if (name, kind) not in self.ids:
            id_ = self.ids[name, kind] = str(next(self._next))
            self.add_atom(id_, name, kind)
            for synonym in SYNONYMS.get(name, ()):
                self.add_atom(id_, synonym, "SY")
        return self.ids[name, kind]

    def add_atom(self, id_, name, kind):
        empty = dict.fromkeys(("TS", "STT", "ISPREF", "SRL"), "")
        fields = {**empty, "AUI": str(len(self.atoms) + 1), "SAB": "RXNORM", "TTY": kind, "CODE": id_}
        self.atoms.append(atom(id_, name, **fields))

    def relate(self, head, label, tail):
        # A row says that concept 2 has the relation to concept 1.
        self.relations[head, label, tail] = None
        self.relations[tail, INVERSE[label], head] = None

    def write(self, folder):
        lines = [
            rrf_line("MRREL", CUI1=tail, STYPE1="CUI", CUI2=head, STYPE2="CUI", RELA=label, SAB="RXNORM")
            for head, label, tail in self.relations
        ]
        types = [rrf_line("MRSTY", CUI=id_, TUI="T200", STY="Clinical Drug") for id_ in self.ids.values()]
        source = [rrf_line("MRSAB", RSAB="RXNORM", SVER="made up", SRL="0", LAT="ENG", CURVER="Y")]
        return write_release(folder, RXNCONSO=self.atoms, RXNREL=lines, RXNSTY=types, RXNSAB=source)


def split(text, sign):
    return [part.strip() for part in text.split(sign)] if text else []


def write_drug_release(folder):
    """Write the release into a folder, and return the folder."""
    release = _Release()
    lines = [line for line in PRODUCTS.read_text(encoding="utf8").splitlines() if not line.startswith("#")]
    for line in lines[1:]:
        ingredients, strengths, before, form, brands = line.split("\t")
        add_products(release, split(ingredients, " / "), split(strengths, ","), before, form, split(brands, ","))
    for pack in PACKS:
        release.add(pack, "GPCK")
    return release.write(folder)


def add_products(release, ingredients, strengths, before, form, brands):
    bases, named = [], []
    for ingredient in ingredients:
        base, _, salt = ingredient.partition("+")
        bases.append(release.add(base, "IN"))
        named.append(f"{base} {salt}".strip())
        if salt:
            release.relate(release.add(named[-1], "PIN"), "form_of", bases[-1])
    plain = " / ".join(ingredient.partition("+")[0] for ingredient in ingredients)
    generic = [*bases]
    if len(bases) > 1:
        generic.append(release.add(plain, "MIN"))
        for base in bases:
            release.relate(base, "part_of", generic[-1])
    branded = {brand: {"name": release.add(brand, "BN")} for brand in brands}
    for ids in branded.values():
        for one in generic:
            release.relate(ids["name"], "tradename_of", one)
    if not form:
        return
    dose_form = release.add(form, "DF")
    drug_form = release.add(f"{plain} {form}", "SCDF")
    release.relate(drug_form, "has_dose_form", dose_form)
    for brand, ids in branded.items():
        ids["form"] = release.add(f"{plain} {form} [{brand}]", "SBDF")
        release.relate(ids["form"], "tradename_of", drug_form)
    for strength in strengths:
        texts = [f"{name} {amount}" for name, amount in zip(named, split(strength, " / "), strict=True)]
        drug = release.add(f"{before} {' / '.join(texts)} {form}".strip(), "SCD")
        release.relate(drug, "has_dose_form", dose_form)
        release.relate(drug, "isa", drug_form)
        for base, name, text in zip(bases, named, texts, strict=True):
            component = release.add(text, "SCDC")
            release.relate(drug, "consists_of", component)
            release.relate(component, "has_ingredient", base)
            if (name, "PIN") in release.ids:
                release.relate(component, "has_precise_ingredient", release.ids[name, "PIN"])
        for brand, ids in branded.items():
            product = release.add(f"{before} {' / '.join(texts)} {form} [{brand}]".strip(), "SBD")
            component = release.add(f"{' / '.join(texts)} [{brand}]", "SBDC")
            release.relate(product, "tradename_of", drug)
            release.relate(product, "isa", ids["form"])
            release.relate(product, "consists_of", component)
            release.relate(component, "has_ingredient", ids["name"])
