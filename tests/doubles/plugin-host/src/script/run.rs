//! The lines of a script, the threads that run them, and what these share.

use std::collections::BTreeMap;
use std::ffi::c_int;
use std::path::PathBuf;
use std::process;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Barrier};
use std::thread::{self, JoinHandle};

use anyhow::{Context as _, Error, anyhow, bail, ensure};
use parking_lot::Mutex;

use super::system::{self, ChildEnd, Side, exit_now, fork, wait};
use super::words::{Command, Init, Start, child_end, duration, number, read, signal_number};
use crate::descriptor::Descriptor;
use crate::interface::{Kind, Version};
use crate::nccl;
use crate::plugin::{InitArguments, Plugin, UNWRITTEN};

pub(super) type Block = Arc<[Line]>;

/// One line, and the block in braces that follows it.
pub(super) struct Line {
    pub(super) number: usize,
    pub(super) words: Vec<String>,
    /// Read once, unless a word has `%i` or `%t` in it.
    pub(super) command: Option<Command>,
    pub(super) block: Option<Block>,
}

/// What `%t` and `%i` stand for: the thread's number in the nearest `parallel`, the round's in the nearest `repeat`.
#[derive(Clone, Copy, Default)]
struct Place {
    thread: u64,
    round: u64,
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

struct Thread {
    shared: Arc<Shared>,
    place: Place,
    line: usize,
    /// What the plugin wrote last.
    handle: u64,
    context: u64,
}

impl Thread {
    fn new(shared: Arc<Shared>, place: Place) -> Self {
        Self { shared, place, line: 0, handle: 0, context: 0 }
    }

    fn run(&mut self, block: &Block) -> anyhow::Result<()> {
        block.iter().try_for_each(|line| {
            self.line = line.number;
            let Place { thread, round } = self.place;
            let placed = |word: &String| word.replace("%t", &thread.to_string()).replace("%i", &round.to_string());
            let done = match &line.command {
                Some(command) => self.execute(line, command),
                None => read(line.words.iter().map(placed).collect(), line.block.is_some())
                    .and_then(|command| self.execute(line, &command)),
            };
            // A line of the block has named its place already.
            let is_named = |error: &Error| error.to_string().starts_with("line ");
            done.map_err(|error| if is_named(&error) { error } else { error.context(format!("line {}", line.number)) })
        })
    }

    fn execute(&mut self, line: &Line, command: &Command) -> anyhow::Result<()> {
        match command {
            Command::Init(init) => self.init(line, init),
            Command::Start(start) => self.start(line, start),
            Command::State(handle, number, args) => {
                let (plugin, handle) = (self.plugin()?, self.resolve(handle)?);
                self.called(line, plugin.state(handle, *number, args.raw(plugin.version).as_mut()));
                Ok(())
            }
            Command::Other(words) => {
                let words: Vec<&str> = words.iter().map(String::as_str).collect();
                if line.block.is_some() { self.with_block(line, &words) } else { self.plain(line, &words) }
            }
        }
    }

    fn init(&mut self, line: &Line, init: &Init) -> anyhow::Result<()> {
        let plugin = self.plugin()?;
        // Lives during the call only, as NCCL's does.
        let comm_name = init.comm_name.clone();
        let arguments = InitArguments { comm_name: comm_name.as_deref(), ..init.given };
        let mut context = 0;
        let result = plugin.init(init.takes_context.then_some(&mut context), &arguments);
        if context == UNWRITTEN {
            self.problem("init left *context unwritten");
        }
        self.context = context;
        self.name(&init.name, context);
        self.shared.names.lock().last_context = context;
        self.called(line, result);
        Ok(())
    }

    fn start(&mut self, line: &Line, start: &Start) -> anyhow::Result<()> {
        let plugin = self.plugin()?;
        let last_context = || Ok(self.shared.names.lock().last_context);
        let context = start.context.as_ref().map_or_else(last_context, |context| self.resolve(context))?;
        let mut fields = start.fields.clone();
        if fields.get("parent_group").is_none() {
            fields.put("parent_group", self.resolve(&start.group)?.into());
        }
        if start.kind == Kind::PROXY_OP && fields.get("pid").is_none() {
            fields.put("pid", u64::from(process::id()).into());
        }
        // A copy, which lives during the call only, as NCCL's does.
        let net = start.net;
        if let Some(net) = &net {
            fields.put("net_id", net.id.into());
            fields.put("net_data", (net.block.as_ptr().expose_provenance() as u64).into());
        }
        let parent = self.resolve(&start.parent)?;
        let mut descriptor = Descriptor::new(plugin.version, start.kind, parent, start.rank, &fields);
        for (offset, width, value) in &start.pokes {
            descriptor.poke(*offset, *width, *value);
        }
        let mut handle = 0;
        let out = start.takes_handle.then_some(&mut handle);
        let result = plugin.start(context, out, start.takes_descriptor.then_some(&mut descriptor));
        if handle == UNWRITTEN {
            self.problem("startEvent left *eHandle unwritten");
        }
        self.handle = handle;
        self.name(&start.name, handle);
        self.called(line, result);
        Ok(())
    }

    fn with_block(&mut self, line: &Line, words: &[&str]) -> anyhow::Result<()> {
        match words {
            ["repeat", times] => {
                let outer = self.place.round;
                for round in 0..number(times)? {
                    self.place.round = round;
                    self.block(line)?;
                }
                self.place.round = outer;
                Ok(())
            }
            ["if", name] if self.resolve(name)? == 0 => Ok(()),
            ["if", _] => self.block(line),
            ["thread", name] => self.spawn(line, name),
            ["parallel", threads] => self.parallel(line, number(threads)?),
            ["fork", options @ ..] => self.fork(line, child_end(options)?),
            _ => bail!("{:?} has other words than the README says", words.join(" ")),
        }
    }

    fn plain(&mut self, line: &Line, words: &[&str]) -> anyhow::Result<()> {
        match words {
            ["load"] => self.load(None)?,
            ["load", version] => self.load(Some(Version::parse(version).map_err(Error::msg)?))?,
            ["unload"] => *self.shared.plugin.lock() = None,
            ["stop", handle] => {
                let handle = self.resolve(handle)?;
                self.called(line, self.plugin()?.stop(handle));
            }
            ["finalize", context] => {
                let context = self.resolve(context)?;
                self.called(line, self.plugin()?.finalize(context));
            }
            ["expect-handle", expected @ ..] => self.expect("the handle", self.handle, expected)?,
            ["expect-context", expected @ ..] => self.expect("the context", self.context, expected)?,
            ["expect-mask", mask] => {
                let (found, expected) = (nccl::mask_now(), number::<u32>(mask)?);
                if found != expected {
                    self.problem(&format!("the mask is {found:#x}, not {expected:#x}"));
                }
            }
            ["mask", mask] => nccl::mask().store(number::<u32>(mask)?.cast_signed(), Ordering::Relaxed),
            ["set", name, value] => self.name(name, self.resolve(value)?),
            ["give", name] => system::give(name, self.resolve(name)?)?,
            ["take", name] => self.name(name, system::take(name)?),
            ["sleep", time] => thread::sleep(duration(time)?),
            ["join"] => self.join(None)?,
            ["join", name] => self.join(Some(name))?,
            ["barrier", name, threads] => self.meet(name, number(threads)?),
            ["kill", signal] => system::kill_self(signal_number(signal)?)?,
            ["exit", status] => system::exit(number(status)?),
            ["_exit", status] => exit_now(number(status)?),
            _ => bail!("{:?} has other words than the README says", words.join(" ")),
        }
        Ok(())
    }

    fn block(&mut self, line: &Line) -> anyhow::Result<()> {
        line.block.as_ref().map_or(Ok(()), |block| self.run(block))
    }

    fn load(&self, version: Option<Version>) -> anyhow::Result<()> {
        // SAFETY: the user named this file as the profiler plugin to run.
        let plugin = unsafe { Plugin::load(&self.shared.path, version.or(self.shared.table)) }?;
        *self.shared.plugin.lock() = Some(Arc::new(plugin));
        Ok(())
    }

    fn plugin(&self) -> anyhow::Result<Arc<Plugin>> {
        self.shared.plugin.lock().clone().context("no plugin is loaded (load)")
    }

    /// Waits until so many threads have reached this barrier.
    fn meet(&self, barrier: &str, threads: usize) {
        let mut barriers = self.shared.barriers.lock();
        let barrier = barriers.entry(barrier.to_owned()).or_insert_with(|| Arc::new(Barrier::new(threads)));
        let barrier = Arc::clone(barrier);
        drop(barriers);
        barrier.wait();
    }

    fn name(&self, name: &str, handle: u64) {
        self.shared.names.lock().handles.insert(name.to_owned(), handle);
    }

    /// A handle or a context: NULL, a number as it is, or what the plugin wrote for a name.
    fn resolve(&self, word: &str) -> anyhow::Result<u64> {
        match word.as_bytes().first() {
            _ if word == "NULL" => Ok(0),
            Some(b'0'..=b'9') => number(word),
            _ => {
                let found = self.shared.names.lock().handles.get(word).copied();
                found.with_context(|| format!("nothing has the name {word:?} yet"))
            }
        }
    }

    fn problem(&self, what: &str) {
        self.shared.problems.lock().push(format!("line {}: {what}", self.line));
    }

    /// Counts a call; its failure is a problem.
    fn called(&self, line: &Line, result: c_int) {
        self.shared.calls.fetch_add(1, Ordering::Relaxed);
        if result != 0 {
            self.problem(&format!("{:?} returned {result}", line.words.join(" ")));
        }
    }

    fn expect(&self, what: &str, found: u64, expected: &[&str]) -> anyhow::Result<()> {
        let is_met = match expected {
            ["NULL"] => found == 0,
            ["non-NULL"] => found != 0 && found != UNWRITTEN,
            ["same", other] => found == self.resolve(other)?,
            ["other", other] => found != self.resolve(other)?,
            _ => bail!("expected is NULL, non-NULL, same HANDLE or other HANDLE"),
        };
        if !is_met {
            self.problem(&format!("{what} is {found:#x}, expected {}", expected.join(" ")));
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

    fn spawn(&self, line: &Line, name: &str) -> anyhow::Result<()> {
        let running = self.start_thread(line, name, self.place)?;
        let before = self.shared.threads.lock().insert(name.to_owned(), running);
        ensure!(before.is_none(), "line {}: the thread {name:?} is still running (join)", line.number);
        Ok(())
    }

    /// Waits for one thread, or for all.
    fn join(&self, name: Option<&str>) -> anyhow::Result<()> {
        let mut threads = self.shared.threads.lock();
        let taken: Vec<Running> = match name {
            None => std::mem::take(&mut *threads).into_values().collect(),
            Some(name) => vec![threads.remove(name).with_context(|| format!("there is no thread {name:?}"))?],
        };
        drop(threads);
        taken.into_iter().try_for_each(finish)
    }

    fn parallel(&self, line: &Line, threads: u64) -> anyhow::Result<()> {
        let start = |thread| {
            let place = Place { thread, round: self.place.round };
            self.start_thread(line, &format!("parallel {thread}"), place)
        };
        let running = (0..threads).map(start).collect::<anyhow::Result<Vec<Running>>>()?;
        running.into_iter().try_for_each(finish)
    }

    /// The child runs the block and ends with `_exit`, as children of libraries do that forgot to exec.
    fn fork(&mut self, line: &Line, expected: ChildEnd) -> anyhow::Result<()> {
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
