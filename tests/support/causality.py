"""Prints as JSON what an archive shows against the order of cause and effect: causality.py ANCHOR

  collectives, messages       how many were compared
  early_exits, early_receives by how many ns a rank left before the last one had entered, and a message was received
                              before it was sent
"""

import json
import sys
from collections import defaultdict

import otf2

begins, ends = defaultdict(list), defaultdict(list)
sends, receives = defaultdict(list), defaultdict(list)
with otf2.reader.open(sys.argv[1]) as trace:
    open_collectives, posted = {}, {}
    for location, event in trace.events:
        members = []
        if hasattr(event, "communicator"):
            members = list(event.communicator.group.members)
        if isinstance(event, otf2.events.MpiCollectiveBegin):
            open_collectives[location] = event.time
        elif isinstance(event, otf2.events.MpiCollectiveEnd):
            begins[event.communicator].append((location.name, open_collectives[location], event))
            ends[event.communicator].append((location.name, event.time))
        elif isinstance(event, otf2.events.MpiIsend):
            sends[(event.communicator, members.index(location), event.receiver)].append(event.time)
        elif isinstance(event, otf2.events.MpiIrecvRequest):
            posted[(location, event.request_id)] = event.time
        elif isinstance(event, otf2.events.MpiIrecv):
            pair = (event.communicator, event.sender, members.index(location))
            receives[pair].append((posted[(location, event.request_id)], event.time))

result = {"collectives": 0, "messages": 0, "early_exits": [], "early_receives": []}
for communicator, entered in begins.items():
    of_rank = defaultdict(list)
    for (name, begin, event), (_, end) in zip(entered, ends[communicator]):
        of_rank[name].append((begin, end, str(event.collective_op).rpartition(".")[2]))
    for ranks in zip(*of_rank.values()):
        if ranks[0][2] not in ("ALLREDUCE", "ALLGATHER", "REDUCE_SCATTER_BLOCK", "ALLTOALL"):
            continue
        result["collectives"] += 1
        late = max(begin for begin, _, _ in ranks) - min(end for _, end, _ in ranks)
        if late > 0:
            result["early_exits"].append(late)
for pair, sent in sends.items():
    # Receives are recorded when they end; they match in the order in which they were posted.
    for send, (_, received) in zip(sent, sorted(receives[pair])):
        result["messages"] += 1
        if send > received:
            result["early_receives"].append(send - received)
json.dump(result, sys.stdout)
