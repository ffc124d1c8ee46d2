"""Prints every sample of a metric as Python's reader sees it: location, metric, unit, time, value."""

import sys

import otf2
from otf2.events import Metric

with otf2.reader.open(sys.argv[1]) as trace:
    for location, event in trace.events:
        if isinstance(event, Metric):
            member = event.metric.members[0]
            print(location.name, member.name, member.unit, event.time, event.values[0], sep="\t")
