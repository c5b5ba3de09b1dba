"""Run the command line."""

from falcon.__main__ import main


def run(capsys, *arguments):
    """Return (status, stdout, stderr); a status that argparse exits with counts too."""
    try:
        status = main([str(x) for x in arguments])
    except SystemExit as end:
        status = end.code
    captured = capsys.readouterr()
    return status, captured.out, captured.err
