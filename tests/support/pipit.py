"""What Pipit reads of an OTF2 archive, as JSON: of each function how often it was entered, its inclusive and its
exclusive time in ns; and the bytes that each process sent to each.

usage: pipit.py PIPIT DIRECTORY    PIPIT has Pipit's source, which no package index has
"""

import json
import sys

sys.path.insert(0, sys.argv[1])

import pipit

trace = pipit.Trace.from_otf2(sys.argv[2])
trace.calc_exc_metrics()
entered = trace.events[trace.events["Event Type"] == "Enter"].groupby("Name", observed=True)
functions = {
    name: [len(of_one), round(of_one["time.inc"].sum()), round(of_one["time.exc"].sum())] for name, of_one in entered
}
print(json.dumps({"functions": functions, "bytes": trace.comm_matrix().astype(int).tolist()}))
