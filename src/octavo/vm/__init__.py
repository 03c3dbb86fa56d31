"""Emulated machines whose kernel has another memory page: what a host cannot change, in counts and not in times.

kernels (which there are) → packages (Debian's, checked by apt) → worker (an image out of them, made as the account) →
images (kept in the state directory) → machine (qemu's command line) → run (a command in it).
"""
