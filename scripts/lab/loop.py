# SPDX-License-Identifier: GPL-2.0
"""One thread, one loop: sockets that became readable or writable, and timers."""

import heapq
import itertools
import selectors
import time


class Timer:
    """Returned by Loop.after; cancel() keeps it from firing."""

    def __init__(self, callback):
        self.callback = callback

    def cancel(self):
        self.callback = None


class Loop:
    def __init__(self):
        self._selector = selectors.DefaultSelector()
        self._timers = []
        self._order = itertools.count()     # timers due at the same time fire in the order they were set

    def now(self):
        return time.monotonic()

    def reader(self, file, callback):
        """Calls callback() whenever file is readable, until forget(file)."""
        self._selector.register(file, selectors.EVENT_READ, [callback, None])

    def writer(self, file, callback):
        """Calls callback() whenever file is writable; None stops it. The file must have a reader."""
        key = self._selector.get_key(file)
        key.data[1] = callback
        events = selectors.EVENT_READ | (selectors.EVENT_WRITE if callback else 0)
        self._selector.modify(file, events, key.data)

    def forget(self, file):
        # An event that select() has already returned must not be handled any more.
        self._selector.unregister(file).data[:] = [None, None]

    def after(self, seconds, callback):
        timer = Timer(callback)
        heapq.heappush(self._timers, (self.now() + seconds, next(self._order), timer))
        return timer

    def step(self, longest=1.0):
        """Waits for the next event, at most `longest` seconds, and handles all due events."""
        if self._timers:
            longest = max(0.0, min(longest, self._timers[0][0] - self.now()))
        for key, events in self._selector.select(longest):
            if events & selectors.EVENT_WRITE and key.data[1]:
                key.data[1]()
            if events & selectors.EVENT_READ and key.data[0]:
                key.data[0]()
        now = self.now()
        while self._timers and self._timers[0][0] <= now:
            callback = heapq.heappop(self._timers)[2].callback
            if callback:
                callback()

    def close(self):
        self._selector.close()
