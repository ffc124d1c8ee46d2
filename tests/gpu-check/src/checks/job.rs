//! One job of `nccl-host`, under the plugin or not, and what its archive says of GPU work.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};

use crate::context::{Context, Shape};
use crate::outcome::{Outcome, with};
use crate::process::{self, Ran};

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
    let works = |shape: &&Shape| {
        // The stand-in runs what it is told to; a GPU that ranks share may hang with some operations.
        let all = "allreduce,sendrecv,group,graph";
        let operations = if context.is_fake { "one" } else { all };
        let job = Job::new(shape, operations, Listener::Nobody).argument("--count", 10_000);
        job.within(Duration::from_secs(if context.is_fake { 60 } else { 30 }))
            .run(context, "shape")
            .is_ok_and(|ran| ran.succeeded())
    };
    shapes.iter().find(works).cloned()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Listener {
    Nobody,
    EmptyPlugin,
    Archive,
    /// The plugin; what it records is thrown away.
    Recording,
}

#[derive(Clone, Debug)]
pub(super) struct Job<'a> {
    shape: &'a Shape,
    listener: Listener,
    arguments: Vec<String>,
    variables: Vec<(&'a str, String)>,
    limit: Duration,
}

impl<'a> Job<'a> {
    pub(super) fn new(shape: &'a Shape, operations: &str, listener: Listener) -> Self {
        let (arguments, variables) = (Vec::new(), Vec::new());
        let job = Self { shape, listener, arguments, variables, limit: Duration::MAX };
        job.argument("--procs", shape.processes).argument("--threads", shape.threads).argument("--ops", operations)
    }

    pub(super) fn recorded(shape: &'a Shape, operations: &str, backend: &str) -> Self {
        Self::new(shape, operations, Listener::Archive).variable("NCCL_OTF2_GPU", backend)
    }

    pub(super) fn within(self, limit: Duration) -> Self {
        Self { limit, ..self }
    }

    pub(super) fn argument(mut self, name: &str, value: impl ToString) -> Self {
        self.arguments.extend([name.to_owned(), value.to_string()]);
        self
    }

    pub(super) fn variable(mut self, name: &'a str, value: impl Into<String>) -> Self {
        self.variables.push((name, value.into()));
        self
    }

    pub(super) fn run(&self, context: &Context<'_>, name: &str) -> Result<Ran, Outcome> {
        let (machine, bundle) = (context.machine, context.bundle);
        let none = || Outcome::not_here("no libnccl.so.2 was found: give its path with --nccl");
        let nccl = machine.nccl.as_ref().ok_or_else(none)?;
        let archive = context.work.join(name);
        let mut command = Command::new(&bundle.host);
        if self.listener == Listener::Archive {
            command = Command::new(&bundle.tool);
            command.args(["run", "--out"]).arg(&archive).arg("--").arg(&bundle.host);
        }
        let limit = self.limit.min(context.left());
        command.arg("--lib").arg(nccl).args(&self.arguments);
        command.args(["--timeout", &limit.as_secs().max(1).to_string()]);
        if self.shape.processes > 1 {
            command.arg("--hosts");
        }
        if context.is_fake {
            command.arg(format!("--fake-gpu={}", bundle.fake_gpu.display()));
        } else if let Some(cudart) = &machine.cudart {
            command.arg("--cudart").arg(cudart);
        }
        command.env("LD_LIBRARY_PATH", machine.library_path());
        command.env("NCCL_DEBUG", "WARN").envs(self.shape.variables.iter().copied());
        match self.listener {
            Listener::Archive => {}
            Listener::Nobody => {
                command.env("NCCL_PROFILER_PLUGIN", "none");
            }
            Listener::EmptyPlugin => {
                command.env("NCCL_PROFILER_PLUGIN", &bundle.empty_plugin);
            }
            Listener::Recording => {
                command.env("NCCL_PROFILER_PLUGIN", &bundle.plugin);
                command.env("NCCL_OTF2_DIR", &archive);
                command.env("NCCL_OTF2_FINALIZE", "offline");
                command.env("NCCL_OTF2_MAX_SIZE", "4G");
            }
        }
        command.env("NCCL_OTF2_VERBOSITY", "verbose").env("NCCL_OTF2_GPU", "off");
        if let Some(cupti) = &machine.cupti {
            command.env("NCCL_OTF2_CUPTI_LIB", cupti);
        }
        command.envs(self.variables.iter().map(|(name, value)| (*name, value)));
        let limit = limit + Duration::from_secs(3);
        process::run(&mut command, limit, &context.work.join(format!("{name}.job")))
            .map_err(|error| Outcome::failed(format!("cannot run {name}: {error}")))
    }

    /// Runs it under the plugin and reads the archive; an error where that is not right.
    pub(super) fn archived(&self, context: &Context<'_>, name: &str) -> Result<Archive, Outcome> {
        let ran = self.run(context, name)?;
        if !ran.succeeded() {
            return Err(Outcome::failed(format!("{name}: {}", ran.how_it_ended())));
        }
        let folder = context.work.join(name);
        let info = tool(context, &["info", "--json"], &folder)?;
        let read = serde_json::from_str(&info.stdout);
        let is_sound = tool(context, &["check"], &folder)?.succeeded();
        Ok(Archive {
            info: read.map_err(|_| Outcome::failed(format!("{name}: {}", info.how_it_ended())))?,
            faults: if is_sound { Vec::new() } else { vec![format!("{name}: nccl-otf2 check finds faults")] },
            folder,
        })
    }
}

pub(super) fn tool(context: &Context<'_>, verb: &[&str], archive: &PathBuf) -> Result<Ran, Outcome> {
    let mut command = Command::new(&context.bundle.tool);
    command.args(verb).arg(archive);
    process::run(&mut command, Duration::from_secs(60), &context.work.join(verb.join("")))
        .map_err(|error| Outcome::failed(format!("cannot run nccl-otf2: {error}")))
}

#[derive(Clone, Debug)]
pub(super) struct Archive {
    info: Value,
    /// Nothing, where `nccl-otf2 check` finds no fault.
    pub(super) faults: Vec<String>,
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
            "sound": self.faults.is_empty(),
        });
        with(facts, gpus["numbers"].clone())
    }
}
