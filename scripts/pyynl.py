#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Gathers the kernel's own reader of netlink specifications, unmodified, and the parts of Python that it runs with, for machines
of the lab, which have no Python:

    pyynl.py SOURCE FOLDER      SOURCE: an unpacked source of the kernel (scripts/kernels.sh --source 6.12)

In such a machine, with FOLDER and /usr/bin/python3 among the files of a scene:

    PYTHONHOME=/lab/files/pyynl python3 /lab/files/pyynl/ynl/cli.py --no-schema --spec ...
"""

import modulefinder
import os
import shutil
import sys
import sysconfig

# What starts Python, and what it opens by name only.
ALWAYS = ("encodings.utf_8", "encodings.latin_1", "encodings.ascii", "encodings.aliases", "encodings.idna", "site",
          "_sitebuiltins", "stat", "posixpath", "genericpath")


def modules_of(program, path):
    """The files of all modules that a program may import."""
    finder = modulefinder.ModuleFinder(path)
    finder.run_script(program)
    for name in ALWAYS:
        finder.import_hook(name)
    return [module.__file__ for module in finder.modules.values() if module.__file__]


def main():
    source, folder = sys.argv[1:]
    ynl = os.path.abspath(f"{source}/tools/net/ynl")
    standard = sysconfig.get_path("stdlib")
    packages = "/usr/lib/python3/dist-packages"
    library = f"{folder}/lib/{os.path.basename(standard)}"
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(f"{library}/lib-dynload")
    for file in modules_of(f"{ynl}/cli.py", [ynl, packages, standard, f"{standard}/lib-dynload"]):
        if file.startswith(f"{ynl}/"):
            to = f"{folder}/ynl/{os.path.relpath(file, ynl)}"
        elif file.startswith(f"{packages}/"):
            to = f"{library}/{os.path.relpath(file, packages)}"
        else:
            to = f"{library}/{os.path.relpath(file, standard)}"
        os.makedirs(os.path.dirname(to), exist_ok=True)
        shutil.copy(file, to)


if __name__ == "__main__":
    main()
