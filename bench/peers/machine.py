"""What the machine is, and whether anything else runs on it."""

import os
import pathlib
import platform
import time

TICK_S = 1 / os.sysconf("SC_CLK_TCK")


def describe():
    """One line: processor, cores, memory, kernel, huge pages."""
    cpuinfo = pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8")
    fields = dict(line.split(":", 1) for line in cpuinfo.split("\n\n")[0].splitlines() if ":" in line)
    fields = {key.strip(): value.strip() for key, value in fields.items()}
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30
    pages = pathlib.Path("/sys/kernel/mm/transparent_hugepage/enabled")
    huge = pages.read_text(encoding="utf-8").split("[")[1].split("]")[0] if pages.exists() else "absent"
    return (
        f"{fields.get('model name', platform.machine())} (family {fields.get('cpu family', '?')}),"
        f" {os.cpu_count()} cores, {memory:.1f} GiB, Linux {platform.release()}, transparent huge pages {huge}"
    )


def load_average():
    return os.getloadavg()[0]


def busy_seconds():
    """Core-seconds that all cores together have worked, or lost to other guests, since the start."""
    fields = pathlib.Path("/proc/stat").read_text(encoding="ascii").split("\n", 1)[0].split()[1:]
    user, nice, system, _idle, _wait, irq, soft_irq, steal = (int(field) for field in fields[:8])
    return (user + nice + system + irq + soft_irq + steal) * TICK_S


def busy_cores(seconds):
    """How many cores work just now, while this program waits."""
    begin = busy_seconds()
    time.sleep(seconds)
    return (busy_seconds() - begin) / seconds


def wait_until_idle(limit_cores, patience_s):
    """Waits until fewer than `limit_cores` work, for at most `patience_s`; how many work then."""
    end = time.monotonic() + patience_s
    busy = busy_cores(max(0.1, min(1.0, patience_s)))
    while busy > limit_cores and time.monotonic() < end:
        busy = busy_cores(2.0)
    return busy


class Foreign:
    """Cores that others kept busy from its making until `cores` is asked."""

    def __init__(self):
        self.begin = time.monotonic()
        self.busy = busy_seconds()
        self.own = self._children()

    @staticmethod
    def _children():
        times = os.times()
        return times.children_user + times.children_system

    def cores(self):
        """Ask when the child has ended: its time counts only then."""
        seconds = max(time.monotonic() - self.begin, 1e-9)
        return max(0.0, (busy_seconds() - self.busy - (self._children() - self.own)) / seconds)
