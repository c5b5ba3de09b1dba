"""A PyTorch model whose linear layers run on falcon: convert it, look at the report, undo it.

python examples/torch_model.py
"""

import falcon


def main() -> None:
    """Convert a small model, and compare its outputs with those before."""
    try:
        import torch
    except ImportError:
        print("this example needs torch: pip install torch")
        return
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Linear(1024, 2048), torch.nn.GELU(), torch.nn.Linear(2048, 1024)
    ).eval()
    tokens = torch.randn(512, 1024)
    with torch.inference_mode():
        before = model(tokens)
        # Without measure=False, every shape is timed first, and torch's product stays where it is
        # faster.
        config = falcon.torch.LinearConfig(min_m=256, memory_limit="64MiB", measure=False)
        print(falcon.torch.convert_(model, config))
        error = (model(tokens) - before).norm() / before.norm()
    print(f"relative difference of the outputs: {error:.1e}")
    falcon.torch.revert_(model)
    print(model)


if __name__ == "__main__":
    main()
