//! Other tools of GPUs beside the plugin.

use std::time::Duration;

use serde_json::{Value, json};

use crate::context::Context;
use crate::machine::PLUGIN;
use crate::outcome::{Answer, Outcome, Problems};
use crate::process;

/// A process group of one rank, whose communicator loads the plugin, and PyTorch's profiler begun before it or after.
const TORCH: &str = include_str!("torch_profiler.py");

pub(crate) fn torch_profiler(context: &Context<'_>) -> Answer {
    let Some(python) = &context.machine.torch else {
        return Err(Outcome::not_here("no python3 with PyTorch (--python)"));
    };
    let (mut facts, mut wrong) = (json!({}), Problems::default());
    for order in ["before", "after"] {
        let mut alone = None;
        for backend in ["none", "off", "auto", "events", "cupti"] {
            let name = format!("{order}-{backend}");
            let mut command = process::program(python, Duration::from_secs(40).min(context.left()));
            command.args(["-c", TORCH, order]);
            if backend == "none" {
                command.env("NCCL_PROFILER_PLUGIN", "none");
            } else {
                command.env("NCCL_PROFILER_PLUGIN", context.bundle.file(PLUGIN));
                command.env("NCCL_OTF2_GPU", backend);
            }
            command.env("NCCL_OTF2_DIR", context.work.join(format!("{name}.trace")));
            command.env("NCCL_OTF2_VERBOSITY", "verbose").env("NCCL_SOCKET_IFNAME", "lo");
            let ran = process::run(&mut command, &context.work.join(&name))?;
            let mut lines = ran.stdout.lines().rev();
            let seen = lines.find_map(|line| serde_json::from_str::<Value>(line).ok());
            let notices: Vec<&str> = ran.stderr.lines().filter(|line| line.contains("GPU work")).collect();
            let events = seen.as_ref().and_then(|seen| seen["gpu_events"].as_u64());
            if backend == "none" {
                alone = events;
            }
            let is_fewer = events.is_none_or(|events| Some(events * 10) < alone.map(|all| all * 9));
            // That the user asked for CUPTI may cost the other tool its records; nothing else may.
            wrong.unless(ran.succeeded(), format!("{name}: {}", ran.how_it_ended()));
            let are_seen = !ran.succeeded() || backend == "cupti" || !is_fewer;
            wrong.unless(are_seen, format!("{name}: PyTorch's profiler saw {events:?} events, alone {alone:?}"));
            facts[name] = json!({ "seen": seen, "notices": notices, "ended": ran.how_it_ended() });
        }
    }
    Ok(Outcome::from_problems(&wrong, facts))
}

pub(crate) fn nsys(context: &Context<'_>) -> Answer {
    let Some(nsys) = &context.machine.nsys else {
        return Err(Outcome::not_here("no nsys on PATH"));
    };
    let mut command = process::program(nsys, context.left());
    command.args(["profile", "--trace=cuda,nvtx", "--force-overwrite=true", "-o"]);
    command.arg(context.work.join("profile")).arg("env");
    let ran = process::run(&mut command, &context.work.join("nsys"))?;
    let names = ["NSYS", "QUADD", "NVTX", "CUDA_INJECTION", "LD_PRELOAD"];
    let is_its = |line: &&str| names.iter().any(|name| line.contains(name));
    let set: Vec<&str> = ran.stdout.lines().filter(is_its).collect();
    let mut wrong = Problems::default();
    wrong.unless(!set.is_empty(), "nsys set no variable that is known");
    Ok(Outcome::from_problems(&wrong, json!({ "variables": set, "ended": ran.how_it_ended() })))
}
