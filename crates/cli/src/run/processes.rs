//! Looks at the command's processes until one records: an entrypoint, a container or the program may have set the
//! plugin's variable anew. /proc shows the variables with which a process began, and the files that it has mapped.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use archive::part_directories;
use rustix::process::Pid;

use crate::slot::{CHAIN, PLUGIN, Variables};

/// The time between two looks is a tenth of what has passed, within these limits.
const SHORTEST: Duration = Duration::from_millis(50);
const LONGEST: Duration = Duration::from_secs(10);

/// What the command's processes should have.
pub(super) struct Watch {
    plugin: OsString,
    /// Other profiler plugins are loaded by ours.
    is_chained: bool,
    out: PathBuf,
}

pub(super) struct Watching {
    is_over: Arc<AtomicBool>,
    thread: JoinHandle<Option<Strayed>>,
}

/// A process that did not have what was set for it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Strayed {
    process: i32,
    program: String,
    /// The surest last.
    how: How,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum How {
    /// The variable has another value, and NCCL is not seen in the process.
    Set(String),
    SetForNccl(String),
    RemovedForNccl,
    Loaded(PathBuf),
}

impl Watch {
    pub(super) fn new(command: &Command, out: &Path) -> Self {
        let given = |name: &str| command.get_envs().find(|(known, _)| *known == name).and_then(|(_, value)| value);
        let is_chained = given(CHAIN).is_some() || Variables::of_process().get(CHAIN).is_some();
        Self { plugin: given(PLUGIN).unwrap_or_default().to_owned(), is_chained, out: out.to_owned() }
    }

    /// If no thread can be started, nothing is seen.
    pub(super) fn begin(self, process: Pid) -> Option<Watching> {
        let is_over = Arc::new(AtomicBool::new(false));
        let ends = Arc::clone(&is_over);
        let looks = move || self.look_until(process.as_raw_nonzero().get(), &ends);
        let thread = thread::Builder::new().name("processes".to_owned()).spawn(looks).ok()?;
        Some(Watching { is_over, thread })
    }

    fn look_until(&self, root: i32, is_over: &AtomicBool) -> Option<Strayed> {
        let began = Instant::now();
        let mut strayed = None;
        while !is_over.load(Ordering::Relaxed) {
            let is_recorded = part_directories(&self.out).is_ok_and(|parts| !parts.is_empty());
            self.look(root, &mut strayed);
            if is_recorded {
                break;
            }
            thread::park_timeout((began.elapsed() / 10).clamp(SHORTEST, LONGEST));
        }
        strayed
    }

    /// Looks at a process and all below it.
    fn look(&self, root: i32, strayed: &mut Option<Strayed>) {
        let mut left = vec![root];
        while let Some(process) = left.pop() {
            left.extend(children(process));
            let Some(how) = self.how(process) else { continue };
            if strayed.as_ref().is_none_or(|known| known.how < how) {
                let program = fs::read_to_string(format!("/proc/{process}/comm")).unwrap_or_default();
                *strayed = Some(Strayed { process, program: program.trim_end().to_owned(), how });
            }
        }
    }

    fn how(&self, process: i32) -> Option<How> {
        let environment = fs::read(format!("/proc/{process}/environ")).ok().filter(|bytes| !bytes.is_empty())?;
        let maps = fs::read(format!("/proc/{process}/maps")).unwrap_or_default();
        let maps = String::from_utf8_lossy(&maps);
        let files = || maps.lines().filter_map(|line| line.split_once('/')).map(|(_, path)| Path::new(path));
        let is_named = |file: &&Path, names: [&str; 2]| {
            let name = file.file_name().map(OsStr::to_string_lossy);
            name.is_some_and(|name| names.iter().any(|prefix| name.starts_with(prefix)))
        };
        let ours = Path::new(&self.plugin).file_name().unwrap_or_default().to_string_lossy();
        let is_other = |file: &&Path| !is_named(file, [&ours; 2]) && !self.is_chained;
        let mut profilers = files().filter(|file| is_named(file, ["libnccl-profiler", "librccl-profiler"]));
        if let Some(file) = profilers.find(is_other) {
            return Some(How::Loaded(Path::new("/").join(file)));
        }
        let mut variables = environment.split(|byte| *byte == 0).map(OsStr::from_bytes);
        let value = variables.find_map(|variable| {
            variable.as_bytes().strip_prefix(PLUGIN.as_bytes())?.strip_prefix(b"=").map(OsStr::from_bytes)
        });
        let has_nccl = || files().any(|file| is_named(&file, ["libnccl.so", "librccl.so"]));
        match value {
            Some(value) if value == self.plugin => None,
            None => has_nccl().then_some(How::RemovedForNccl),
            Some(value) if has_nccl() => Some(How::SetForNccl(value.to_string_lossy().into_owned())),
            Some(value) => Some(How::Set(value.to_string_lossy().into_owned())),
        }
    }
}

impl Watching {
    pub(super) fn end(self) -> Option<Strayed> {
        self.is_over.store(true, Ordering::Relaxed);
        self.thread.thread().unpark();
        self.thread.join().ok().flatten()
    }
}

impl Strayed {
    /// Whether this is why nothing was recorded: the process used NCCL.
    pub(super) fn used_nccl(&self) -> bool {
        !matches!(self.how, How::Set(_))
    }
}

impl std::fmt::Display for Strayed {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let who = format!("process {} ({})", self.process, self.program);
        match &self.how {
            How::Set(value) | How::SetForNccl(value) => write!(out, "{PLUGIN} became {value} in the {who}"),
            How::RemovedForNccl => write!(out, "{PLUGIN} was removed from the environment of the {who}"),
            How::Loaded(file) => write!(out, "NCCL in the {who} has loaded another profiler, {}", file.display()),
        }
    }
}

fn children(process: i32) -> Vec<i32> {
    let threads = fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    let lists = threads.filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok());
    lists.flat_map(|list| list.split_whitespace().filter_map(|id| id.parse().ok()).collect::<Vec<_>>()).collect()
}
