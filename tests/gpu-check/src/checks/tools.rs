//! Other tools of GPUs beside the plugin.

use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};

use crate::context::Context;
use crate::outcome::Outcome;
use crate::process;

/// A process group of one rank, whose communicator loads the plugin, and PyTorch's profiler begun before it or after.
const TORCH: &str = r#"
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
"#;

/// What PyTorch's profiler sees beside each backend.
pub(crate) fn torch_profiler(context: &Context<'_>) -> Outcome {
    let Some(python) = &context.machine.torch else {
        return Outcome::not_here("no python3 with PyTorch (--python)");
    };
    let (mut facts, mut wrong) = (json!({}), Vec::new());
    for order in ["before", "after"] {
        let mut alone = None;
        for backend in ["none", "off", "auto", "events", "cupti"] {
            let name = format!("{order}-{backend}");
            let mut command = Command::new(python);
            command.args(["-c", TORCH, order]);
            if backend == "none" {
                command.env("NCCL_PROFILER_PLUGIN", "none");
            } else {
                command.env("NCCL_PROFILER_PLUGIN", &context.bundle.plugin);
                command.env("NCCL_OTF2_GPU", backend);
            }
            command.env("NCCL_OTF2_DIR", context.work.join(format!("{name}.trace")));
            command.env("NCCL_OTF2_VERBOSITY", "verbose").env("NCCL_SOCKET_IFNAME", "lo");
            let limit = Duration::from_secs(40).min(context.left());
            let ran = match process::run(&mut command, limit, &context.work.join(&name)) {
                Ok(ran) => ran,
                Err(error) => return Outcome::failed(format!("cannot run Python: {error}")),
            };
            let mut lines = ran.stdout.lines().rev();
            let seen = lines.find_map(|line| serde_json::from_str::<Value>(line).ok());
            let notices: Vec<&str> = ran.stderr.lines().filter(|line| line.contains("GPU work")).collect();
            let events = seen.as_ref().and_then(|seen| seen["gpu_events"].as_u64());
            if backend == "none" {
                alone = events;
            }
            let is_fewer = events.is_none_or(|events| Some(events * 10) < alone.map(|all| all * 9));
            // That the user asked for CUPTI may cost the other tool its records; nothing else may.
            if !ran.succeeded() {
                wrong.push(format!("{name}: {}", ran.how_it_ended()));
            } else if backend != "cupti" && is_fewer {
                wrong.push(format!("{name}: PyTorch's profiler saw {events:?} events, alone {alone:?}"));
            }
            facts[name] = json!({ "seen": seen, "notices": notices, "ended": ran.how_it_ended() });
        }
    }
    Outcome::of(&wrong, facts)
}

pub(crate) fn nsys(context: &Context<'_>) -> Outcome {
    let Some(nsys) = &context.machine.nsys else {
        return Outcome::not_here("no nsys on PATH");
    };
    let mut command = Command::new(nsys);
    command.args(["profile", "--trace=cuda,nvtx", "--force-overwrite=true", "-o"]);
    command.arg(context.work.join("profile")).arg("env");
    let ran = match process::run(&mut command, context.left(), &context.work.join("nsys")) {
        Ok(ran) => ran,
        Err(error) => return Outcome::failed(format!("cannot run nsys: {error}")),
    };
    let names = ["NSYS", "QUADD", "NVTX", "CUDA_INJECTION", "LD_PRELOAD"];
    let is_its = |line: &&str| names.iter().any(|name| line.contains(name));
    let set: Vec<&str> = ran.stdout.lines().filter(is_its).collect();
    let wrong: &[String] = match set.len() {
        0 => &["nsys set no variable that is known".to_owned()],
        _ => &[],
    };
    Outcome::of(wrong, json!({ "variables": set, "ended": ran.how_it_ended() }))
}
