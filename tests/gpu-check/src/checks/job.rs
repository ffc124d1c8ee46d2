//! One job of `nccl-host`, under the plugin or not, and the GPU work in its archive.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};

use crate::context::{Context, Shape};
use crate::machine::{HOST, PLUGIN, TOOL};
use crate::outcome::{Outcome, Problems, with};
use crate::process::{self, ProcessOutput};

/// A bare machine may have no other network.
const LOOPBACK: (&str, &str) = ("NCCL_SOCKET_IFNAME", "lo");
pub(super) const ALONE: Shape = Shape { processes: 1, threads: 1, variables: &[LOOPBACK], words: "one rank" };
/// Two ranks as threads, one of them on each GPU, or both on the stand-in's.
const PAIR: Shape = Shape { threads: 2, words: "two ranks, each with a GPU", ..ALONE };
const TOGETHER: Shape = Shape {
    variables: &[LOOPBACK, ("NCCL_MULTI_RANK_GPU_ENABLE", "1")],
    words: "two ranks of one process on one GPU (NCCL_MULTI_RANK_GPU_ENABLE)",
    ..PAIR
};
const APART: Shape = Shape {
    processes: 2,
    threads: 1,
    variables: &[LOOPBACK, ("NCCL_NET", "Socket"), ("NCCL_IB_DISABLE", "1")],
    words: "two processes on one GPU that claim different hosts (NCCL_HOSTID), over sockets",
};

impl Context<'_> {
    pub(crate) fn shape(&self) -> Result<&Shape, Outcome> {
        let shape = self.shape.get_or_init(|| find_shape(self)).as_ref();
        shape.ok_or_else(|| {
            Outcome::not_here("NCCL lets only one rank use this machine's GPU, and launches nothing for one")
        })
    }
}

/// The first shape of several ranks that works, with the operations that checks use.
fn find_shape(context: &Context<'_>) -> Option<Shape> {
    let shapes: &[Shape] = if context.is_fake || context.machine.gpus > 1 { &[PAIR] } else { &[TOGETHER, APART] };
    // The stand-in runs any operation; a GPU that ranks share may hang with some.
    let operations = if context.is_fake { "one" } else { "allreduce,sendrecv,group,graph" };
    let arguments = format!("--ops {operations} --count 10000");
    let limit = Duration::from_secs(if context.is_fake { 60 } else { 30 });
    let works = |shape: &&Shape| {
        let job = Job { name: "shape", shape, listener: Listener::Nobody, arguments: &arguments, variables: &[] };
        job.run(context, limit).is_ok_and(|ran| ran.succeeded())
    };
    shapes.iter().find(works).cloned()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Listener {
    Nobody,
    EmptyPlugin,
    /// `nccl-otf2 run`, with this backend for GPU work.
    Archive(&'static str),
    /// The plugin; what it records is thrown away.
    Recording,
}

#[derive(Clone, Debug)]
pub(super) struct Job<'a> {
    /// Of its files in the folder of the check.
    pub(super) name: &'a str,
    pub(super) shape: &'a Shape,
    pub(super) listener: Listener,
    /// Words for `nccl-host`.
    pub(super) arguments: &'a str,
    pub(super) variables: &'a [(&'a str, &'a str)],
}

/// A job whose archive is looked at.
pub(super) fn recorded<'a>(name: &'a str, shape: &'a Shape, backend: &'static str, arguments: &'a str) -> Job<'a> {
    Job { name, shape, listener: Listener::Archive(backend), arguments, variables: &[] }
}

impl Job<'_> {
    pub(super) fn run(&self, context: &Context<'_>, limit: Duration) -> Result<ProcessOutput, Outcome> {
        let (machine, bundle) = (context.machine, context.bundle);
        let none = || Outcome::not_here("no libnccl.so.2 was found: give its path with --nccl");
        let nccl = machine.nccl.as_ref().ok_or_else(none)?;
        let archive = context.work.join(self.name);
        let limit = limit.min(context.left());
        let killed_after = limit + Duration::from_secs(3);
        let mut command = match self.listener {
            Listener::Archive(_) => process::program(bundle.file(TOOL), killed_after),
            _ => process::program(bundle.file(HOST), killed_after),
        };
        command.env("NCCL_OTF2_VERBOSITY", "verbose").env("NCCL_OTF2_GPU", "off");
        match self.listener {
            Listener::Archive(backend) => {
                command.args(["run", "--out"]).arg(&archive).arg("--").arg(bundle.file(HOST));
                command.env("NCCL_OTF2_GPU", backend);
            }
            Listener::Nobody => {
                command.env("NCCL_PROFILER_PLUGIN", "none");
            }
            Listener::EmptyPlugin => {
                command.env("NCCL_PROFILER_PLUGIN", bundle.file("lib/libnccl-profiler-empty.so"));
            }
            Listener::Recording => {
                command.env("NCCL_PROFILER_PLUGIN", bundle.file(PLUGIN)).env("NCCL_OTF2_DIR", &archive);
                command.env("NCCL_OTF2_FINALIZE", "offline").env("NCCL_OTF2_MAX_SIZE", "4G");
            }
        }
        let Shape { processes, threads, variables, .. } = self.shape;
        command.arg("--lib").arg(nccl).args(["--procs", &processes.to_string(), "--threads", &threads.to_string()]);
        command.args(["--timeout", &limit.as_secs().max(1).to_string()]).args(self.arguments.split(' '));
        if *processes > 1 {
            command.arg("--hosts");
        }
        if context.is_fake {
            command.arg(format!("--fake-gpu={}", bundle.file("fake/libfakegpu.so").display()));
        } else if let Some(cudart) = &machine.cudart {
            command.arg("--cudart").arg(cudart);
        }
        if let Some(cupti) = &machine.cupti {
            command.env("NCCL_OTF2_CUPTI_LIB", cupti);
        }
        command.env("LD_LIBRARY_PATH", machine.library_path()).env("NCCL_DEBUG", "WARN");
        command.envs(variables.iter().copied()).envs(self.variables.iter().copied());
        process::run(&mut command, &context.work.join(format!("{}.job", self.name)))
    }

    /// Runs it under the plugin and reads the archive; an error where that is not right.
    pub(super) fn archived(&self, context: &Context<'_>) -> Result<Archive, Outcome> {
        let name = self.name;
        let ran = self.run(context, Duration::MAX)?;
        if !ran.succeeded() {
            return Err(Outcome::failed(format!("{name}: {}", ran.how_it_ended())));
        }
        let folder = context.work.join(name);
        let info = tool(context, &["info", "--json"], &folder)?;
        let read = serde_json::from_str(&info.stdout);
        let (mut faults, is_sound) = (Problems::default(), tool(context, &["check"], &folder)?.succeeded());
        faults.unless(is_sound, format!("{name}: nccl-otf2 check finds faults"));
        let info = read.map_err(|_| Outcome::failed(format!("{name}: {}", info.how_it_ended())))?;
        Ok(Archive { info, is_sound, faults, folder })
    }
}

pub(super) fn tool(context: &Context<'_>, verb: &[&str], archive: &Path) -> Result<ProcessOutput, Outcome> {
    let mut command = process::program(context.bundle.file(TOOL), Duration::from_secs(60));
    process::run(command.args(verb).arg(archive), &context.work.join(verb.join("")))
}

#[derive(Clone, Debug)]
pub(super) struct Archive {
    info: Value,
    is_sound: bool,
    /// Nothing, where `nccl-otf2 check` finds no fault.
    pub(super) faults: Problems,
    pub(super) folder: PathBuf,
}

impl Archive {
    /// A number about GPU work; 0 where the archive does not have it.
    pub(super) fn number(&self, name: &str) -> u64 {
        self.info["gpus"]["numbers"][name].as_u64().unwrap_or(0)
    }

    pub(super) fn is_by(&self, backend: &str) -> bool {
        self.info["gpus"]["backends"] == json!([backend])
    }

    pub(super) fn facts(&self) -> Value {
        let (info, gpus) = (&self.info, &self.info["gpus"]);
        let facts = json!({
            "backends": gpus["backends"],
            "notices": gpus["notices"],
            "clocks": gpus["clocks"],
            "clock": info["clock"],
            "operations": info["operations"],
            "kinds": info["completeness"]["kinds"],
            "nccl": info["nccl_versions"],
            "sound": self.is_sound,
        });
        with(facts, gpus["numbers"].clone())
    }
}
