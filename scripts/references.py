#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Compares the reference documentation with the code, in both directions: settings with their defaults and ranges, counters,
tracepoints with their fields, the generic netlink family, socket options and control messages, errors, parameters of modules.

Prints each difference, one result for each reference, and the count.
"""

import os
import re
import sys

TOP = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
RDS, RDMA, KCM, RTRS = (f"Documentation/{path}.rst" for path in (
    "networking/rds", "networking/rds-rdma", "networking/kcm", "infiniband/rtrs"))
TRACEPOINTS, NETLINK = "Documentation/tracepoints.rst", "Documentation/netlink/specs/hawser.yaml"
# Errors of core that no program gets: between its parts, for the host, or as another one.
INTERNAL = {"EALREADY", "EBUSY", "ECONNABORTED", "ECONNRESET", "EEXIST", "EIO", "ENOIOCTLCMD", "EPROTO", "ERESTARTSYS",
            "ESHUTDOWN"}
KCM_INTERNAL = {"EIO", "ENOIOCTLCMD", "ERESTARTSYS"}


def text_of(path):
    with open(f"{TOP}/{path}", encoding="utf-8") as file:
        return file.read()


def sources(*folders):
    for folder in folders:
        for name in sorted(os.listdir(f"{TOP}/{folder}")):
            if name.endswith((".cc", ".h", ".c")):
                yield text_of(f"{folder}/{name}")


def section(page, title):
    """The text of a section, up to the next one of any level."""
    found = re.search(rf"^{re.escape(title)}\n([=-])\1+\n(.*?)(?=^\S[^\n]*\n(?:===|---)|\Z)", text_of(page), re.M | re.S)
    if not found:
        raise SystemExit(f"{page} has no section: {title}")
    return found[2]


def rows(text):
    """Lists of the cells of each row of list-tables, without the heads."""
    for row in re.split(r"^ +\* - ", text, flags=re.M)[1:]:
        row = re.split(r"\n(?=\S)", row, maxsplit=1)[0]
        cells = [" ".join(cell.split()) for cell in re.split(r"^ +-(?: |$)", row, flags=re.M)]
        if cells[0].startswith("``"):
            yield cells


def names_in(text):
    return re.findall(r"``([^`]+)``", text)


def differ(what, code, documented):
    for name in sorted(set(code) - set(documented)):
        yield f"{what}: {name} is not in the documentation"
    for name in sorted(set(documented) - set(code)):
        yield f"{what}: {name} is not in the code"


def strings(path, name):
    body = re.search(rf"{name}\[\] = {{(.*?)}};", text_of(path), re.S)[1]
    return re.findall(r'"([^"]+)"', body)


def number(text):
    known = {"most_unsignaled": ("net/rds/rdma/device.h", r"most_unsignaled = (\d+)"),
             "usual_send_limit_max": ("net/rds/net.h", r"usual_send_limit_max = ([^;]+);")}
    if text in known:
        text = re.search(known[text][1], text_of(known[text][0]))[1]
    digits = text.replace("'", "").rstrip("ul")
    if shift := re.fullmatch(r"(\d+)u? << (\d+)", text):
        return int(shift[1]) << int(shift[2])
    if digits.startswith("~"):
        return "any"
    return int(digits, 0) if re.fullmatch(r"0x[0-9a-f]+|\d+", digits) else digits


def code_settings(path, prefix, defaults):
    """NAME: (default, least, most). A bound that is another setting is that one's name."""
    table = re.findall(r"^ +ROW\((\w+), ([^,]+), ([^,)]+)(?:, (-?\d+), (-?\d+))?\)", text_of(path), re.M)
    for name, least, most, least_is, most_is in table:
        least = "the minimum" if least_is not in ("", "-1") else number(least)
        most = "the maximum" if most_is not in ("", "-1") else number(most)
        found = re.search(rf"\.{name} = ([\w'< ]+)[,}}]", text_of(defaults))
        yield prefix + name, (number(found[1]) if found else None, least, most)


def in_words(value):
    """The column Range, where it names each value."""
    return {"0, 1": "0 to 1"}.get(value, value)


def settings():
    """settings of net.rds, with their defaults and ranges"""
    code = dict(code_settings("net/rds/core_api.cc", "net.rds.", "net/rds/net.cc"))
    code |= dict(code_settings("net/rds/tcp/core_api.cc", "net.rds.tcp.", "net/rds/tcp/net.h"))
    code |= dict(code_settings("net/rds/rdma/core_api.cc", "net.rds.ib.", "net/rds/rdma/net.cc"))
    documented = {}
    for names, default, span, _ in rows(section(RDS, "Settings")):
        names = names_in(names)
        prefix = names[0].rpartition(".")[0]
        if prefix:
            for index, name in enumerate(names):
                documented[f"{prefix}.{name.rpartition('.')[2]}"] = (default, span, index, len(names))
    for names, both, _ in rows(section(RDMA, "Settings")):
        default, span = both.split(", ", 1)
        documented[f"net.rds.ib.{names_in(names)[0]}"] = (default, span, 0, 1)
    yield from differ("settings", code, documented)
    for name in sorted(set(code) & set(documented)):
        default, span, index, count = documented[name]
        defaults = default.split(", ")
        wanted = code[name]
        if wanted[0] is not None and str(wanted[0]) != defaults[index if len(defaults) == count else 0]:
            yield f"{name}: the default is {wanted[0]}, not {default}"
        least, most = re.fullmatch(r"(.+?),? to (.+)", in_words(span)).groups() if span != "any" else ("any", "any")
        least = least.split(" or ")[index] if " or " in least else least
        if "any" not in (wanted[2], span) and (str(wanted[1]), str(wanted[2])) != (least, most):
            yield f"{name}: the range is {wanted[1]} to {wanted[2]}, not {span}"
        if (wanted[2] == "any") != (span == "any"):
            yield f"{name}: the range is {wanted[1]} to {wanted[2]}, not {span}"
    example = dict(re.findall(r"^(\S+) = (\d+)$", text_of("Documentation/examples/sysctl.d/hawser.conf"), re.M))
    for name, value in example.items():
        if str(code.get(name, ("missing",))[0]) != value:
            yield f"sysctl.d/hawser.conf: {name} = {value} is not the default"
    manual = text_of("Documentation/man/rds.7")
    for name in code:
        if name.rpartition(".")[2] not in manual and "max_unacked" not in name and ".ib." not in name:
            yield f"{name} is not in rds(7)"


def counters():
    """counters of rds-info -c"""
    text = section(RDS, "Counters")
    documented = [name for cells in rows(text) for name in names_in(cells[0])]
    documented += names_in(text[text.index("These counters are always 0"):text.index("The counters of")])
    code = strings("net/rds/stats.cc", "stat_names") + strings("net/rds/tcp/net.cc", "stat_names")
    yield from differ("counters", code, documented)
    documented = [name for cells in rows(section(RDMA, "Counters")) for name in names_in(cells[0])]
    yield from differ("counters over RDMA", strings("net/rds/rdma/net.cc", "stat_names"), documented)
    columns = re.findall(r'^\t\t\t{ "([\w-]+)", ', text_of("net/kcm/glue/proc.c"), re.M)
    columns += re.findall(r'"([A-Z][\w-]+)"', re.search(r'"Object",(.*?)\);', text_of("net/kcm/glue/proc.c"), re.S)[1])
    text = section(KCM, "/proc/net/kcm and /proc/net/kcm_stats")
    documented = [name for cells in rows(text) for name in names_in(cells[0])]
    documented += [name for name in names_in(text[text.rindex("\n\n", 0, len(text) - 2):]) if not name.endswith(".py")]
    yield from differ("columns of /proc/net/kcm", columns, documented)


def code_events():
    """EVENT: its fields."""
    for family in ("rds", "kcm", "rtrs"):
        text = text_of(f"kapi/linux/events_{family}.h")
        fields = {}
        for name, body in re.findall(r"^(?:DECLARE_EVENT_CLASS|TRACE_EVENT_FN)\((\w+),(.*?)^\);", text, re.M | re.S):
            fields[name] = re.findall(r"__(?:array|field)\(\w+, (\w+)", body)
        macros = dict(re.findall(r"^#define (\w+_EVENT)\(name\)\s*\\\s*DEFINE_EVENT_FN\((\w+),", text, re.M))
        for macro, name in re.findall(r"^(\w+_EVENT)\((\w+)\);", text, re.M):
            yield name, set(fields[macros[macro]])
        for name in re.findall(r"^TRACE_EVENT_FN\((\w+),", text, re.M):
            yield name, set(fields[name])


def tracepoints():
    """tracepoints and their fields"""
    code = dict(code_events())
    documented, last = {}, {}
    for cells in rows(text_of(TRACEPOINTS)):
        if len(cells) != 3:
            continue
        event, family = names_in(cells[0])[0], names_in(cells[0])[0].partition("_")[0]
        fields = {name for name in names_in(cells[2]) if re.fullmatch(r"[a-z_]+", name)}
        if cells[2].startswith("as for"):
            fields = documented[names_in(cells[2])[0]]
        elif cells[2].startswith("the same"):
            fields = last[family]
        documented[event] = last[family] = fields
    yield from differ("tracepoints", code, documented)
    for event in sorted(set(code) & set(documented)):
        values = {"stopped", "connecting", "connected", "ending", "waiting", "removed", "closing", "ended"}
        yield from differ(event, code[event], documented[event] - values)
    reasons = re.findall(r'{ KAPI_RDS_\w+, "(\w+)" }', text_of("kapi/linux/events_rds.h"))[4:]
    documented = [names_in(cells[0])[0] for cells in rows(text_of(TRACEPOINTS)) if len(cells) == 2]
    yield from differ("reasons", reasons, documented)
    yield from differ("reasons in the log", reasons, strings("net/rds/notice.cc", "reasons"))


def netlink():
    """attributes, commands and values of the generic netlink family"""
    header, spec = text_of("include/uapi/hawser_netlink.h"), text_of(NETLINK)
    enums = {name: [(entry, int(value)) for entry, value in re.findall(r"HAWSER_(\w+) = (\d+)", body)]
             for name, body in re.findall(r"^enum hawser_(\w+) {(.*?)^};", header, re.M | re.S)}
    for name, body in re.findall(r"^  -\n    name: ([\w-]+)\n    attributes:\n(.*?)(?=^  -\n    name|^\w)", spec, re.M | re.S):
        listed = re.findall(r"^      -\n        name: ([\w-]+)", body, re.M)
        wanted = [f"{name}-{entry}".upper().replace("-", "_") for entry in listed]
        if [(entry, index) for index, entry in enumerate(wanted, 1)] != enums[name.replace("-", "_")]:
            yield f"attributes of {name} differ"
    commands = [(f"CMD_{name.upper().replace('-', '_')}", int(value)) for name, value in
                re.findall(r"^      name: ([\w-]+)\n      doc:.*?^      value: (\d+)", spec, re.M | re.S)]
    if commands != enums["command"]:
        yield f"commands differ: {commands}"
    for name, body in re.findall(r"^    type: enum\n    name: ([\w-]+)\n(.*?)(?=^  -|^\w)", spec, re.M | re.S):
        inline = re.search(r"entries: \[ (.*) \]", body)
        listed = inline[1].split(", ") if inline else re.findall(r"^        name: ([\w-]+)", body, re.M)
        values = enums[name.replace("-", "_")]
        # Those of RDS_PEER have their own prefix, the others that of the protocol.
        start = int((re.search(r"value-start: (\d+)", body) or [0, 0])[1])
        if [(entry.rpartition("_")[2].lower(), value) for entry, value in values] != [*zip(listed, range(start, 99))]:
            yield f"values of {name} differ"
    used = set(re.findall(r"HAWSER_(?:RDS|KCM)_\w+", " ".join(sources("net/rds", "net/kcm"))))
    attributes = {f"HAWSER_{entry}" for name in ("rds_connection", "rds_path", "rds_tcp", "rds_rdma", "rds_socket",
                                                       "rds_queue", "rds_message", "kcm_connection")
                  for entry, _ in enums[name]}
    for attribute in sorted(attributes - used):
        yield f"{attribute} is never sent"


def options():
    """socket options, ioctls and control messages of the manual pages"""
    pages = text_of("Documentation/man/rds.7") + text_of("Documentation/man/rds-rdma.7")
    uapi = text_of("net/rds/uapi.h")
    for name in re.findall(r"#define RDS_ABI_((?:CMSG_|SIOC|INFO_)\w+|[A-Z_]+) \d", uapi[uapi.index("/* Options of level"):]):
        shown = {"SO_TRANSPORT": "SO_RDS_TRANSPORT",
                 "SO_MSG_RXPATH_LATENCY": "SO_RDS_MSG_RXPATH_LATENCY"}.get(name, f"RDS_{name}")
        shown = name if name.startswith("SIOC") else re.sub("^RDS_INFO_?6", "RDS6_INFO", shown)
        if name in OWN_NAMES_OF_CORE or name.startswith(("INFO_CONNECTION_FLAG", "INFO_MESSAGE_FLAG", "INFO6_")):
            continue
        if shown.replace("SO_TIMESTAMP_OLD", "SO_TIMESTAMP").replace("RDS_SO_", "SO_") not in pages:
            yield f"{shown} is not in rds(7) or rds-rdma(7)"
    page = text_of("Documentation/man/kcm.7")
    for name in re.findall(r"#define (KCM_[A-Z_]+) \d", text_of("include/uapi/hawser_kcm.h")):
        if name not in page:
            yield f"{name} is not in kcm(7)"
    defined = set(re.findall(r"#define (KCM_\w+)", text_of("include/uapi/hawser_kcm.h"))) | {
        "KCM_RECV_DISABLE"} | set(re.findall(r"\b(KCM_STEER_\w+)", text_of("include/uapi/hawser_kcm.h")))
    for name in sorted(set(re.findall(r"\b(KCM_[A-Z]+(?:_[A-Z]+)*)\b", page)) - defined):
        yield f"kcm(7) has {name}, which does not exist"


# Numbers that core compares with, which programs do not name.
OWN_NAMES_OF_CORE = {
    "TRANS_GAP", "TRANS_COUNT", "TRANS_NONE", "TRANSNAMSIZ", "MAX_RUN", "MOST_LENGTHS", "CONG_MONITOR_SIZE", "INFO_FIRST",
    "INFO_LAST", "INFO_CONNECTION_STATS", "INFO_IWARP_CONNECTIONS", "SO_TIMESTAMP_NEW", "RX_TRACE_MAX", "IB_GID_LEN",
    "MAX_ZCOOKIES",
}


def errors():
    """errors of system calls"""
    def named(*folders):
        return {name[5:] for text in sources(*folders) for name in re.findall(r"\bKAPI_E[A-Z0-9]+\b", text)} - {"END", "ERR"}

    def listed(*pages):
        return {name for page in pages for line in re.findall(r"^\.BR? (E.*)$", text_of(f"Documentation/man/{page}"), re.M)
                for name in re.findall(r"\bE[A-Z0-9]{3,}\b", line)}

    code = named("net/rds", "net/rds/tcp", "net/rds/rdma") - INTERNAL
    # ERESTARTSYS is EINTR to a program with a handler.
    yield from differ("errors of RDS", code, listed("rds.7", "rds-rdma.7"))
    # From glue, adoption of the TCP socket, TCP itself, and the parser program.
    elsewhere = {"EAFNOSUPPORT", "EOPNOTSUPP", "EBADMSG", "EFAULT", "ECONNRESET"}
    yield from differ("errors of KCM", (named("net/kcm") - KCM_INTERNAL) | elsewhere, listed("kcm.7"))


def parameters():
    """parameters of the modules"""
    rtrs = (RTRS, "Documentation/man/rtrs.7")
    for folder, pages in {"net/rds/glue": (RDS,), "net/kcm/glue": (KCM,), "drivers/infiniband/ulp/rtrs/client/glue": rtrs,
                          "drivers/infiniband/ulp/rtrs/server/glue": rtrs}.items():
        names = [name for text in sources(folder) for name in re.findall(r"^module_param(?:_named)?\((\w+),", text, re.M)]
        yield from (f"the parameter {name} is not in {page}" for name in names for page in pages if name not in text_of(page))


def main():
    failed = 0
    references = (settings, counters, tracepoints, netlink, options, errors, parameters)
    for position, reference in enumerate(references, 1):
        differences = list(reference())
        for difference in differences:
            print(f"# {difference}")
        print(f"{'not ok' if differences else 'ok'} {position} {reference.__doc__}")
        failed += bool(differences)
    print(f"1..{len(references)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
