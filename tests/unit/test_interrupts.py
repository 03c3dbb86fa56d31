"""The handling of an impatient user's signals at a command's end."""

import subprocess
import sys

# Each change of the handlers is another moment at which a signal may arrive in between: without the rule about
# 30 of the 5,000 were reported with a traceback.
_END = """
import os, signal, subprocess, sys
from octavo.host.foreground import no_more_interrupts
sender = "import os, sys\\nwhile True: os.kill(int(sys.argv[1]), 2)"
signal.signal(signal.SIGINT, lambda *_: None)
impatient = subprocess.Popen([sys.executable, "-I", "-c", sender, str(os.getpid())], stderr=subprocess.DEVNULL)
for _ in range(5_000):
    no_more_interrupts()
    signal.signal(signal.SIGINT, lambda *_: None)
no_more_interrupts()
impatient.kill()
impatient.wait()
"""


def test_a_signal_that_comes_while_signals_are_being_ignored_is_not_reported() -> None:
    ended = subprocess.run([sys.executable, "-c", _END], capture_output=True, text=True, timeout=120)
    assert (ended.returncode, ended.stderr) == (0, "")


def test_what_cannot_be_raised_is_still_reported_at_the_end() -> None:
    broken = """
from octavo.host.foreground import no_more_interrupts
class Broken:
    def __del__(self):
        raise OSError("lost")
no_more_interrupts()
Broken()
"""
    ended = subprocess.run([sys.executable, "-c", broken], capture_output=True, text=True, timeout=60)
    assert "OSError: lost" in ended.stderr


def test_a_signal_that_a_finalizer_swallows_comes_again() -> None:
    swallowing = """
import os, signal, time
from octavo.host.foreground import interrupt_once
class Finalized:
    def __del__(self):
        os.kill(os.getpid(), signal.SIGTERM)
        for _ in range(1_000):
            pass
interrupt_once()
Finalized()
try:
    time.sleep(60)
except KeyboardInterrupt:
    print("interrupted")
"""
    ended = subprocess.run([sys.executable, "-c", swallowing], capture_output=True, text=True, timeout=50)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "interrupted\n", "")
