//! One job of `nccl-host`, under the plugin or not, and what its archive says of GPU work.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};

use crate::outcome::{Facts, Outcome};
use crate::plan::Context;
use crate::process::{self, Ran};

/// Processes and threads, and what lets NCCL run them here.
#[derive(Clone, Debug)]
pub(crate) struct Shape {
    pub(crate) processes: u16,
    pub(crate) threads: u16,
    /// Each process claims a host of its own.
    pub(crate) hosts: bool,
    pub(crate) variables: &'static [(&'static str, &'static str)],
    /// In words.
    pub(crate) words: &'static str,
}

/// One rank.
pub(crate) const ALONE: Shape = Shape {
    processes: 1,
    threads: 1,
    hosts: false,
    variables: LOOPBACK,
    words: "one rank",
};
/// Two ranks as threads, one of them on each GPU, or both on the stand-in's.
const PAIR: Shape = Shape {
    processes: 1,
    threads: 2,
    hosts: false,
    variables: LOOPBACK,
    words: "two ranks, each with a GPU",
};
const TOGETHER: Shape = Shape {
    processes: 1,
    threads: 2,
    hosts: false,
    variables: &[
        ("NCCL_SOCKET_IFNAME", "lo"),
        ("NCCL_MULTI_RANK_GPU_ENABLE", "1"),
    ],
    words: "two ranks of one process on one GPU (NCCL_MULTI_RANK_GPU_ENABLE)",
};
const APART: Shape = Shape {
    processes: 2,
    threads: 1,
    hosts: true,
    variables: &[
        ("NCCL_SOCKET_IFNAME", "lo"),
        ("NCCL_NET", "Socket"),
        ("NCCL_IB_DISABLE", "1"),
    ],
    words: "two processes on one GPU that claim different hosts (NCCL_HOSTID), over sockets",
};
/// A bare machine may have no other network.
const LOOPBACK: &[(&str, &str)] = &[("NCCL_SOCKET_IFNAME", "lo")];

/// The first shape of several ranks that works, with the operations that checks use.
pub(crate) fn find_shape(context: &Context<'_>) -> Option<Shape> {
    let shapes: &[Shape] = if context.is_fake || context.machine.gpus > 1 {
        &[PAIR]
    } else {
        &[TOGETHER, APART]
    };
    let works = |shape: &&Shape| {
        // The stand-in runs what it is told to; a GPU that ranks share may hang with some operations.
        let operations = if context.is_fake {
            "one"
        } else {
            "allreduce,sendrecv,group,graph"
        };
        let mut job = Job::new(shape, operations).argument("--count", 10_000);
        job.limit = Duration::from_secs(if context.is_fake { 60 } else { 30 });
        let ran = job.run(context, "shape");
        ran.is_ok_and(|ran| ran.succeeded())
    };
    shapes.iter().find(works).cloned()
}

/// Who listens to NCCL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Listener {
    Nobody,
    EmptyPlugin,
    /// The plugin, and the archive is made.
    Archive,
    /// The plugin; what it records is thrown away.
    Recording,
}

/// What is to be run.
#[derive(Clone, Debug)]
pub(crate) struct Job<'a> {
    shape: &'a Shape,
    pub(crate) operations: &'a str,
    pub(crate) arguments: Vec<String>,
    pub(crate) variables: Vec<(&'a str, String)>,
    pub(crate) listener: Listener,
    pub(crate) limit: Duration,
}

impl<'a> Job<'a> {
    pub(crate) fn new(shape: &'a Shape, operations: &'a str) -> Self {
        Self {
            shape,
            operations,
            arguments: Vec::new(),
            variables: Vec::new(),
            listener: Listener::Nobody,
            limit: Duration::from_secs(60),
        }
    }

    pub(crate) fn listener(mut self, listener: Listener) -> Self {
        self.listener = listener;
        self
    }

    pub(crate) fn argument(mut self, name: &str, value: impl ToString) -> Self {
        self.arguments.extend([name.to_owned(), value.to_string()]);
        self
    }

    pub(crate) fn variable(mut self, name: &'a str, value: impl Into<String>) -> Self {
        self.variables.push((name, value.into()));
        self
    }

    /// Where the run of this name has its archive.
    pub(crate) fn archive(context: &Context<'_>, name: &str) -> PathBuf {
        context.work.join(name)
    }

    /// Runs it; an error is one of starting it.
    pub(crate) fn run(&self, context: &Context<'_>, name: &str) -> Result<Ran, Outcome> {
        let machine = context.machine;
        let Some(nccl) = &machine.nccl else {
            return Err(Outcome::not_here(
                "no libnccl.so.2 was found: give its path with --nccl",
            ));
        };
        let archive = Self::archive(context, name);
        let mut command = match self.listener {
            Listener::Archive => {
                let mut command = Command::new(context.bundle.tool());
                command.args(["run", "--out"]).arg(&archive).arg("--");
                command.arg(context.bundle.host());
                command
            }
            _ => Command::new(context.bundle.host()),
        };
        let limit = self.limit.min(context.left());
        command.arg("--lib").arg(nccl);
        command.args(["--procs", &self.shape.processes.to_string()]);
        command.args(["--threads", &self.shape.threads.to_string()]);
        command
            .args(["--ops", self.operations])
            .args(&self.arguments);
        command.args(["--timeout", &limit.as_secs().max(1).to_string()]);
        if self.shape.hosts {
            command.arg("--hosts");
        }
        if context.is_fake {
            command.arg(format!(
                "--fake-gpu={}",
                context.bundle.fake_gpu().display()
            ));
        } else if let Some(cudart) = &machine.cudart {
            command.arg("--cudart").arg(cudart);
        }
        command.env("LD_LIBRARY_PATH", machine.library_path());
        command.env("NCCL_DEBUG", "WARN");
        command.envs(self.shape.variables.iter().copied());
        match self.listener {
            Listener::Nobody => {
                command.env("NCCL_PROFILER_PLUGIN", "none");
            }
            Listener::EmptyPlugin => {
                command.env("NCCL_PROFILER_PLUGIN", context.bundle.empty_plugin());
            }
            Listener::Archive => {}
            Listener::Recording => {
                command.env("NCCL_PROFILER_PLUGIN", context.bundle.plugin());
                command.env("NCCL_OTF2_DIR", &archive);
                command.env("NCCL_OTF2_FINALIZE", "offline");
                command.env("NCCL_OTF2_MAX_SIZE", "4G");
            }
        }
        command.env("NCCL_OTF2_VERBOSITY", "verbose");
        command.env("NCCL_OTF2_GPU", "off");
        if let Some(cupti) = &machine.cupti {
            command.env("NCCL_OTF2_CUPTI_LIB", cupti);
        }
        command.envs(self.variables.iter().map(|(name, value)| (*name, value)));
        process::run(
            &mut command,
            limit + Duration::from_secs(3),
            &context.work.join(format!("{name}.job")),
        )
        .map_err(|error| Outcome::failed(format!("cannot run {name}: {error}")))
    }

    /// Runs it under the plugin and reads the archive; an error where that is not right.
    pub(crate) fn archived(&self, context: &Context<'_>, name: &str) -> Result<Archive, Outcome> {
        let ran = self.run(context, name)?;
        if !ran.succeeded() {
            return Err(Outcome::failed(format!("{name}: {}", ran.how_it_ended())));
        }
        Archive::read(context, name)
    }
}

/// What an archive says of itself.
#[derive(Clone, Debug)]
pub(crate) struct Archive {
    info: Value,
    /// `nccl-otf2 check` finds no fault.
    pub(crate) is_sound: bool,
}

impl Archive {
    pub(crate) fn read(context: &Context<'_>, name: &str) -> Result<Self, Outcome> {
        let folder = Job::archive(context, name);
        let tool = |verb: &[&str]| {
            let mut command = Command::new(context.bundle.tool());
            command.args(verb).arg(&folder);
            let out = context.work.join(format!("{name}.{}", verb.join("")));
            process::run(&mut command, Duration::from_secs(60), &out)
                .map_err(|error| Outcome::failed(format!("cannot run nccl-otf2: {error}")))
        };
        let info = tool(&["info", "--json"])?;
        let Ok(value) = serde_json::from_str(&info.stdout) else {
            return Err(Outcome::failed(format!(
                "{name}: nccl-otf2 info: {}",
                info.how_it_ended()
            )));
        };
        Ok(Self {
            info: value,
            is_sound: tool(&["check"])?.succeeded(),
        })
    }

    /// A number about GPU work; 0 where the archive does not have it.
    pub(crate) fn number(&self, name: &str) -> u64 {
        self.info["gpus"]["numbers"][name].as_u64().unwrap_or(0)
    }

    /// How GPU work was recorded.
    pub(crate) fn ways(&self) -> Vec<&str> {
        let ways = self.info["gpus"]["ways"].as_array();
        ways.into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect()
    }

    /// What the archive says of GPU work and of kinds of events.
    pub(crate) fn facts(&self) -> Facts {
        let mut facts = Facts::new();
        let mut put = |name: &str, value: &Value| facts.insert(name.to_owned(), value.clone());
        if let Some(numbers) = self.info["gpus"]["numbers"].as_object() {
            for (name, value) in numbers {
                put(name, value);
            }
        }
        put("ways", &self.info["gpus"]["ways"]);
        put("notices", &self.info["gpus"]["notices"]);
        put("clocks", &self.info["gpus"]["clocks"]);
        put("clock", &self.info["clock"]);
        put("operations", &self.info["operations"]);
        put("kinds", &self.info["completeness"]["kinds"]);
        put("nccl", &self.info["nccl_versions"]);
        put("sound", &json!(self.is_sound));
        facts
    }
}
