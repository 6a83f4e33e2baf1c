# SPDX-License-Identifier: GPL-2.0
"""Recognises faults in a kernel's log and in its taint flags."""

import re

# Bit -> meaning, from Documentation/admin-guide/tainted-kernels.rst.
TAINTS = {
    0: "proprietary module", 1: "module was force loaded", 2: "out of specification",
    3: "module was force unloaded", 4: "machine check", 5: "bad page", 6: "user asked",
    7: "died (oops or BUG)", 8: "ACPI table overridden", 9: "warning issued", 10: "staging driver",
    11: "firmware bug", 12: "out-of-tree module", 13: "unsigned module", 14: "soft lockup",
    15: "live patched", 16: "auxiliary", 17: "randomised struct layout", 18: "in-kernel test",
}
TAINTS_ALLOWED = (1 << 12) | (1 << 13)

# Fault reports of the kernel. Each line that matches fails the run.
COMPLAINTS = re.compile("|".join((
    # The kernel's own data races are many and known: only those in our modules count.
    r"\bBUG: (?!KCSAN: )", r"\bKCSAN: .*\[(hawser|hawser_verbs|rds|rds_tcp|rds_rdma|kcm|rtrs_\w+|kapi_(verbs_)?test)\]",
    r"\bkernel BUG at ", r"\bOops\b", r"\bWARNING: ", r"\bKernel panic\b",
    r"general protection fault",
    r"Unable to handle kernel", r"unable to handle page fault",
    r"INFO: task .* blocked for more than", r"soft lockup", r"hard LOCKUP",
    r"detected stall", r"self-detected stall", r"rcu.*\bstalls?\b", r"starved for \d+ jiffies",
    r"possible circular locking", r"possible recursive locking", r"inconsistent lock state",
    r"suspicious RCU usage", r"INFO: possible ", r"lock held when returning", r"sleeping function called",
    r"scheduling while atomic", r"\bKASAN\b: ", r"\bUBSAN\b: ", r"\bKFENCE\b: ",
    r"kmemleak: \d+ new suspected", r"kmemleak: .*disabled", r"turning off the locking correctness",
    r"page allocation failure", r"refcount_t: ", r"list_(add|del) corruption", r"Bad page state",
    r"usercopy: Kernel memory", r"ODEBUG: ", r"unregister_netdevice: waiting for", r"DEBUG_LOCKS_WARN_ON",
    r"stack-protector: ", r"CFI failure at ", r"INFO: trying to register non-static key",
    r"disagrees about version of symbol", r"sysfs: cannot create duplicate",
)))

# QEMU 7.2 (Debian 12's) may keep a translation of code that another processor has just patched. Kernels patch themselves
# (static keys), so sometimes one runs into the breakpoint of a patch that is already complete, and panics.
EMULATION = re.compile(r"\bint3: 0000 \[#1\]")
MODULE_CODE = re.compile(r"\bRIP: .*\[\w+\]")
# And sometimes a guest's flags are overwritten with a value like an address. No program can do that: the processor
# ignores writes to the reserved bits (Intel SDM, volume 1, 3.4.3).
FLAGS = re.compile(r"\bEFLAGS: ([0-9a-f]{8})\b")
FLAGS_ZERO, FLAGS_ONE = 0xffc08028, 0x2


def emulation_broke(lines):
    """True if this end of a console shows a state that only a broken emulator reaches: a breakpoint in the kernel's own code,
    which no debugger has set, or flags that no processor can have."""
    flags = [int(found[1], 16) for found in map(FLAGS.search, lines) if found]
    if any(value & FLAGS_ZERO or not value & FLAGS_ONE for value in flags):
        return True
    place = next((line for line in lines if "RIP: " in line), "")
    return any(EMULATION.search(line) for line in lines) and bool(place) and not MODULE_CODE.search(place)


def decode_taint(value):
    """The flags of `value` that are not allowed, in words."""
    wrong = value & ~TAINTS_ALLOWED
    return [TAINTS.get(bit, f"unknown flag {bit}") for bit in range(64) if wrong >> bit & 1]


def parse_record(record):
    """Parses a record of /dev/kmsg into (seconds since boot, text)."""
    head, _, body = record.decode("utf-8", "replace").partition(";")
    fields = head.split(",")
    lines = body.split("\n")
    text = lines[0]     # the lines after it, which start with a space, name the device
    text = re.sub(r"\\x([0-9a-f]{2})", lambda match: chr(int(match[1], 16)), text)
    return (int(fields[2]) / 1e6 if len(fields) > 2 and fields[2].isdigit() else 0.0), text


def complains(text):
    """True if this line of the log reports a fault."""
    return bool(COMPLAINTS.search(text))
