//! The lines of a script, the threads that run them, and what these share.

use std::collections::BTreeMap;
use std::ffi::c_int;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Barrier};
use std::thread::{self, JoinHandle};

use anyhow::{Context as _, anyhow, ensure};
use parking_lot::Mutex;

use super::system::{ChildEnd, Side, exit_now, fork, wait};
use crate::interface::Version;
use crate::plugin::{Plugin, UNWRITTEN};

pub(super) type Action = Box<dyn Fn(&mut Thread, &Line) -> anyhow::Result<()> + Send + Sync>;

pub(super) type Block = Arc<[Line]>;

/// One line, and the block in braces that follows it.
pub(super) struct Line {
    pub(super) number: usize,
    pub(super) words: Vec<String>,
    /// Makes the action of words, which a block follows or not.
    pub(super) make: fn(&[&str], bool) -> anyhow::Result<Action>,
    /// Made once, unless a word has `%i` or `%t` in it.
    pub(super) action: Option<Action>,
    pub(super) block: Option<Block>,
}

/// What `%t` and `%i` stand for: the number of the thread in the nearest `parallel`, and of the round in the nearest
/// `repeat`.
#[derive(Clone, Copy, Default)]
pub(super) struct Place {
    thread: u64,
    pub(super) round: u64,
}

impl Line {
    fn run(&self, thread: &mut Thread) -> anyhow::Result<()> {
        match &self.action {
            Some(action) => action(thread, self),
            None => self.action_at(thread.place, self.block.is_some())?(thread, self),
        }
    }

    pub(super) fn action_at(&self, place: Place, has_block: bool) -> anyhow::Result<Action> {
        let (thread, round) = (place.thread.to_string(), place.round.to_string());
        let words: Vec<String> =
            self.words.iter().map(|word| word.replace("%t", &thread).replace("%i", &round)).collect();
        (self.make)(&words.iter().map(String::as_str).collect::<Vec<_>>(), has_block)
    }
}

/// A handle or a context: a number as it is (0 for NULL), or what the plugin wrote for a name.
#[derive(Debug)]
pub(super) enum Handle {
    Raw(u64),
    Name(String),
}

#[derive(Debug)]
pub(super) enum Written {
    Null,
    NonNull,
    Same(Handle),
    Other(Handle),
}

/// Runs a script: how many calls it made, and what was not as it should be, one sentence each. The plugin is loaded
/// before the first line, unless that is a `load`. An error is that the script cannot continue; what the plugin does
/// wrong is a problem.
pub(super) fn run(script: &Block, path: PathBuf, table: Option<Version>) -> anyhow::Result<(u64, Vec<String>)> {
    let shared = Arc::new(Shared {
        path,
        table,
        plugin: Mutex::default(),
        names: Mutex::default(),
        threads: Mutex::default(),
        barriers: Mutex::default(),
        problems: Mutex::default(),
        calls: AtomicU64::new(0),
    });
    let mut thread = Thread::new(Arc::clone(&shared), Place::default());
    if script.first().is_none_or(|line| line.words[0] != "load") {
        thread.load(None)?;
    }
    thread.run(script)?;
    thread.join(None)?;
    let problems = std::mem::take(&mut *shared.problems.lock());
    Ok((shared.calls.load(Ordering::Relaxed), problems))
}

type Running = JoinHandle<anyhow::Result<()>>;

struct Shared {
    path: PathBuf,
    table: Option<Version>,
    plugin: Mutex<Option<Arc<Plugin>>>,
    names: Mutex<Names>,
    threads: Mutex<BTreeMap<String, Running>>,
    barriers: Mutex<BTreeMap<String, Arc<Barrier>>>,
    problems: Mutex<Vec<String>>,
    calls: AtomicU64,
}

#[derive(Default)]
struct Names {
    handles: BTreeMap<String, u64>,
    last_context: u64,
}

pub(super) struct Thread {
    shared: Arc<Shared>,
    pub(super) place: Place,
    line: usize,
    /// What the plugin wrote last.
    pub(super) handle: u64,
    pub(super) context: u64,
}

impl Thread {
    fn new(shared: Arc<Shared>, place: Place) -> Self {
        Self { shared, place, line: 0, handle: 0, context: 0 }
    }

    fn run(&mut self, block: &Block) -> anyhow::Result<()> {
        block.iter().try_for_each(|line| {
            self.line = line.number;
            let done = line.run(self);
            // A line of the block has named its place already.
            if line.block.is_some() { done } else { done.with_context(|| format!("line {}", line.number)) }
        })
    }

    pub(super) fn block(&mut self, line: &Line) -> anyhow::Result<()> {
        line.block.as_ref().map_or(Ok(()), |block| self.run(block))
    }

    pub(super) fn load(&self, version: Option<Version>) -> anyhow::Result<()> {
        // SAFETY: the user named this file as the profiler plugin to run.
        let plugin = unsafe { Plugin::load(&self.shared.path, version.or(self.shared.table)) }?;
        *self.shared.plugin.lock() = Some(Arc::new(plugin));
        Ok(())
    }

    pub(super) fn unload(&mut self) {
        *self.shared.plugin.lock() = None;
    }

    pub(super) fn plugin(&self) -> anyhow::Result<Arc<Plugin>> {
        self.shared.plugin.lock().clone().context("no plugin is loaded (load)")
    }

    /// Waits until so many threads have reached this barrier.
    pub(super) fn meet(&self, barrier: &str, threads: usize) {
        let mut barriers = self.shared.barriers.lock();
        let barrier = barriers.entry(barrier.to_owned()).or_insert_with(|| Arc::new(Barrier::new(threads)));
        let barrier = Arc::clone(barrier);
        drop(barriers);
        barrier.wait();
    }

    pub(super) fn name(&self, name: &str, handle: u64) {
        self.shared.names.lock().handles.insert(name.to_owned(), handle);
    }

    pub(super) fn set_context(&mut self, name: &str, context: u64) {
        self.context = context;
        self.name(name, context);
        self.shared.names.lock().last_context = context;
    }

    pub(super) fn last_context(&self) -> u64 {
        self.shared.names.lock().last_context
    }

    pub(super) fn resolve(&self, handle: &Handle) -> anyhow::Result<u64> {
        match handle {
            Handle::Raw(raw) => Ok(*raw),
            Handle::Name(name) => {
                let found = self.shared.names.lock().handles.get(name).copied();
                found.with_context(|| format!("nothing has the name {name:?} yet"))
            }
        }
    }

    pub(super) fn problem(&self, what: &str) {
        self.shared.problems.lock().push(format!("line {}: {what}", self.line));
    }

    pub(super) fn call(
        &self,
        line: &Line,
        handle: &Handle,
        call: impl Fn(&Plugin, u64) -> c_int,
    ) -> anyhow::Result<()> {
        let handle = self.resolve(handle)?;
        self.called(line, call(&*self.plugin()?, handle));
        Ok(())
    }

    /// Counts a call; its failure is a problem.
    pub(super) fn called(&self, line: &Line, result: c_int) {
        self.shared.calls.fetch_add(1, Ordering::Relaxed);
        if result != 0 {
            self.problem(&format!("{:?} returned {result}", line.words.join(" ")));
        }
    }

    pub(super) fn expect_written(&self, what: &str, found: u64, expected: &Written) -> anyhow::Result<()> {
        let is_met = match expected {
            Written::Null => found == 0,
            Written::NonNull => found != 0 && found != UNWRITTEN,
            Written::Same(other) => found == self.resolve(other)?,
            Written::Other(other) => found != self.resolve(other)?,
        };
        if !is_met {
            self.problem(&format!("{what} is {found:#x}, expected {expected:?}"));
        }
        Ok(())
    }

    fn start_thread(&self, line: &Line, name: &str, place: Place) -> anyhow::Result<Running> {
        let mut thread = Self::new(Arc::clone(&self.shared), place);
        let block = line.block.clone();
        let work = move || block.map_or(Ok(()), |block| thread.run(&block));
        let started = thread::Builder::new().name(name.to_owned()).spawn(work);
        started.with_context(|| format!("line {}", line.number))
    }

    pub(super) fn spawn(&self, line: &Line, name: &str) -> anyhow::Result<()> {
        let running = self.start_thread(line, name, self.place)?;
        let before = self.shared.threads.lock().insert(name.to_owned(), running);
        ensure!(before.is_none(), "line {}: the thread {name:?} is still running (join)", line.number);
        Ok(())
    }

    /// Waits for one thread, or for all.
    pub(super) fn join(&self, name: Option<&str>) -> anyhow::Result<()> {
        let mut threads = self.shared.threads.lock();
        let taken: Vec<Running> = match name {
            None => std::mem::take(&mut *threads).into_values().collect(),
            Some(name) => vec![threads.remove(name).with_context(|| format!("there is no thread {name:?}"))?],
        };
        drop(threads);
        taken.into_iter().try_for_each(finish)
    }

    pub(super) fn parallel(&self, line: &Line, threads: u64) -> anyhow::Result<()> {
        let start = |thread| {
            let place = Place { thread, round: self.place.round };
            self.start_thread(line, &format!("parallel {thread}"), place)
        };
        let running = (0..threads).map(start).collect::<anyhow::Result<Vec<Running>>>()?;
        running.into_iter().try_for_each(finish)
    }

    /// The child runs the block and ends with `_exit`, as children of libraries do that forgot to exec.
    pub(super) fn fork(&mut self, line: &Line, expected: ChildEnd) -> anyhow::Result<()> {
        // Held over the fork, so that the child does not inherit them locked by another thread.
        let names = self.shared.names.lock();
        let problems = self.shared.problems.lock();
        let before = problems.len();
        let side = fork();
        drop(problems);
        drop(names);
        match side.with_context(|| format!("line {}", line.number))? {
            Side::Child => {
                let result = self.block(line);
                let problems = self.shared.problems.lock();
                for problem in problems.iter().skip(before) {
                    eprintln!("in the forked child: {problem}");
                }
                if let Err(error) = &result {
                    eprintln!("in the forked child: {error:#}");
                }
                exit_now(if result.is_err() { 2 } else { i32::from(problems.len() > before) })
            }
            Side::Parent(child) => {
                let end = wait(child)?;
                if end != expected {
                    self.line = line.number;
                    self.problem(&format!("the forked child ended with {end:?}, expected {expected:?}"));
                }
                Ok(())
            }
        }
    }
}

fn finish(running: Running) -> anyhow::Result<()> {
    running.join().unwrap_or_else(|_| Err(anyhow!("a thread of the script panicked")))
}
