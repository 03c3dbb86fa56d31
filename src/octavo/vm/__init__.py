"""Emulated machines whose kernel has another memory page, which a host cannot change: for counts, not for times.

kernels (which there are) → packages (Debian's, checked by apt) → worker (makes an image of them as the account) →
images (kept in the state directory) → machine (qemu's command line) → run (a command in it).
"""
