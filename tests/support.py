"""What tests of several folders share."""

# Seconds: a limit of time in a test ends what hangs on any machine, and says nothing about speed.
HANG = 3600
