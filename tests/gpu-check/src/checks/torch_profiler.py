import json, os, sys, tempfile
import torch, torch.distributed as dist
from torch.profiler import profile, ProfilerActivity
order = sys.argv[1]

def communicator():
    store = dist.FileStore(tempfile.mktemp(), 1)
    dist.init_process_group("nccl", store=store, rank=0, world_size=1)
    x = torch.ones(1024, device="cuda")
    dist.all_reduce(x)
    torch.cuda.synchronize()

def work():
    a = torch.randn(256, 256, device="cuda")
    for _ in range(20):
        a = torch.relu(a + 1)
    torch.cuda.synchronize()

def kernels(profiler):
    return sum(1 for e in profiler.events() if str(e.device_type).endswith("CUDA"))

torch.cuda.set_device(0)
work()
seen = {"torch": torch.__version__, "nccl": list(torch.cuda.nccl.version())}
if order == "before":
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as p:
        communicator()
        work()
else:
    communicator()
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as p:
        work()
seen["gpu_events"] = kernels(p)
dist.destroy_process_group()
print("\n" + json.dumps(seen), flush=True)
