//! Runs a script's commands against a plugin.

use std::collections::BTreeMap;
use std::ffi::CString;
use std::io;
use std::path::PathBuf;
use std::process;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Barrier};
use std::thread::{self, JoinHandle};

use parking_lot::Mutex;

use super::command::{Command, Handle, Init, Place, Start, Written};
use super::exchange;
use super::net::NetBlock;
use super::parse::{Block, ParseError, Statement};
use super::process::{exit, exit_now, kill_self};
use crate::descriptor::Descriptor;
use crate::kind::Kind;
use crate::logger;
use crate::state_args::{RawStateArgs, StateArgs};
use crate::table::{InitArguments, LoadError, Plugin, ResultCode, UNWRITTEN};
use crate::version::Version;

mod threads;

/// What a script did.
#[derive(Debug, Default)]
pub struct Outcome {
    /// Calls of the plugin.
    pub calls: u64,
    /// What was not as it should be, one sentence each.
    pub problems: Vec<String>,
}

/// A script cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// A line with `%` makes no command.
    #[error(transparent)]
    Parse(#[from] ParseError),
    /// The plugin cannot be loaded.
    #[error("line {line}: {source}")]
    Load {
        /// The line's number.
        line: usize,
        /// Why.
        source: LoadError,
    },
    /// The script uses what is not there.
    #[error("line {line}: {reason}")]
    Script {
        /// The line's number.
        line: usize,
        /// What is wrong.
        reason: String,
    },
    /// The system refuses.
    #[error("line {line}: {source}")]
    System {
        /// The line's number.
        line: usize,
        /// Why.
        source: io::Error,
    },
}

/// Runs a script. The plugin is loaded before the first line, unless that is a `load`.
///
/// # Errors
/// When the script cannot go on; what the plugin does wrong is in the outcome.
pub fn run(script: &Block, plugin: PathBuf, table: Option<Version>) -> Result<Outcome, RunError> {
    let shared = Arc::new(Shared {
        path: plugin,
        table,
        plugin: Mutex::new(None),
        names: Mutex::new(Names::default()),
        threads: Mutex::new(BTreeMap::new()),
        barriers: Mutex::new(BTreeMap::new()),
        problems: Mutex::new(Vec::new()),
        calls: AtomicU64::new(0),
    });
    let mut thread = Thread::new(Arc::clone(&shared), Place::default());
    if !script.first().is_some_and(|statement| {
        matches!(statement.command(Place::default()), Ok(Command::Load(_)))
    }) {
        thread.load(1, None)?;
    }
    thread.block(script)?;
    thread.settle();
    thread.join(0, None)?;
    let problems = std::mem::take(&mut *shared.problems.lock());
    Ok(Outcome {
        calls: shared.calls.load(Ordering::Relaxed),
        problems,
    })
}

type Running = JoinHandle<Result<(), RunError>>;

/// What all threads of a script share.
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

/// One thread of a script.
struct Thread {
    shared: Arc<Shared>,
    place: Place,
    /// The last call's result, and its line and words until an `expect-rc` has looked at it.
    result: ResultCode,
    unexpected: Option<(usize, String)>,
    handle: u64,
    context: u64,
}

impl Thread {
    const fn new(shared: Arc<Shared>, place: Place) -> Self {
        Self {
            shared,
            place,
            result: 0,
            unexpected: None,
            handle: 0,
            context: 0,
        }
    }

    fn block(&mut self, block: &Block) -> Result<(), RunError> {
        block
            .iter()
            .try_for_each(|statement| self.statement(statement))
    }

    fn statement(&mut self, statement: &Statement) -> Result<(), RunError> {
        let line = statement.line;
        let command = statement.command(self.place)?;
        if !matches!(command, Command::ExpectResult(_)) {
            self.settle();
        }
        match command {
            Command::Load(version) => self.load(line, version)?,
            Command::Unload => *self.shared.plugin.lock() = None,
            Command::Init(init) => self.init(statement, &init)?,
            Command::Start(start) => self.start(statement, &start)?,
            Command::Stop(handle) => {
                let handle = self.resolve(line, &handle)?;
                let result = self.plugin(line)?.stop(handle);
                self.called(statement, result);
            }
            Command::State {
                handle,
                number,
                args,
            } => self.state(statement, &handle, number, args)?,
            Command::Finalize(context) => {
                let context = self.resolve(line, &context)?;
                let result = self.plugin(line)?.finalize(context);
                logger::communicator_ends();
                self.called(statement, result);
            }
            Command::ExpectResult(expected) => {
                self.unexpected = None;
                self.expect(
                    line,
                    "the result",
                    u64::from(self.result),
                    u64::from(expected),
                );
            }
            Command::ExpectHandle(written) => {
                self.expect_written(line, "the handle", self.handle, &written)?
            }
            Command::ExpectContext(written) => {
                self.expect_written(line, "the context", self.context, &written)?
            }
            Command::ExpectMask(mask) => {
                self.expect(line, "the mask", u64::from(logger::mask()), u64::from(mask))
            }
            Command::Mask(mask) => logger::set_mask(mask),
            Command::Set(name, value) => {
                let value = self.resolve(line, &value)?;
                self.shared.names.lock().handles.insert(name, value);
            }
            Command::Give(name) => {
                let value = self.resolve(line, &Handle::Name(name.clone()))?;
                exchange::give(&name, value).map_err(|source| RunError::System { line, source })?;
            }
            Command::Take(name) => {
                let value =
                    exchange::take(&name).map_err(|source| RunError::System { line, source })?;
                self.shared.names.lock().handles.insert(name, value);
            }
            Command::Sleep(time) => thread::sleep(time),
            Command::Print(text) => println!("{text}"),
            Command::Repeat(times) => {
                let outer = self.place.round;
                for round in 0..times {
                    self.place.round = round;
                    self.block(&statement.block)?;
                }
                self.place.round = outer;
            }
            Command::If(handle) => {
                if self.resolve(line, &handle)? != 0 {
                    self.block(&statement.block)?;
                }
            }
            Command::Thread(name) => self.spawn(statement, name, self.place)?,
            Command::Join(name) => self.join(line, name.as_deref())?,
            Command::Parallel(threads) => self.parallel(statement, threads)?,
            Command::Barrier(name, threads) => {
                let mut barriers = self.shared.barriers.lock();
                let barrier = barriers
                    .entry(name)
                    .or_insert_with(|| Arc::new(Barrier::new(threads)));
                let barrier = Arc::clone(barrier);
                drop(barriers);
                barrier.wait();
            }
            Command::Fork(expected) => self.fork(statement, expected)?,
            Command::Kill(signal) => {
                kill_self(signal).map_err(|source| RunError::System { line, source })?
            }
            Command::Exit(status) => exit(status),
            Command::ExitNow(status) => exit_now(status),
        }
        Ok(())
    }

    fn load(&self, line: usize, version: Option<Version>) -> Result<(), RunError> {
        // SAFETY: the user named this file as the profiler plugin to run.
        let plugin = unsafe { Plugin::load(&self.shared.path, version.or(self.shared.table)) }
            .map_err(|source| RunError::Load { line, source })?;
        *self.shared.plugin.lock() = Some(Arc::new(plugin));
        Ok(())
    }

    fn plugin(&self, line: usize) -> Result<Arc<Plugin>, RunError> {
        self.shared
            .plugin
            .lock()
            .clone()
            .ok_or_else(|| RunError::Script {
                line,
                reason: "no plugin is loaded (load)".into(),
            })
    }

    fn resolve(&self, line: usize, handle: &Handle) -> Result<u64, RunError> {
        match handle {
            Handle::Raw(raw) => Ok(*raw),
            Handle::Name(name) => {
                let names = self.shared.names.lock();
                names
                    .handles
                    .get(name)
                    .copied()
                    .ok_or_else(|| RunError::Script {
                        line,
                        reason: format!("nothing has the name {name:?} yet"),
                    })
            }
        }
    }

    fn problem(&self, line: usize, what: &str) {
        self.shared
            .problems
            .lock()
            .push(format!("line {line}: {what}"));
    }

    /// Notes a call; its failure is a problem unless the next line expects it.
    fn called(&mut self, statement: &Statement, result: ResultCode) {
        self.shared.calls.fetch_add(1, Ordering::Relaxed);
        self.result = result;
        if result != 0 {
            self.unexpected = Some((statement.line, statement.text()));
        }
    }

    fn settle(&mut self) {
        if let Some((line, text)) = self.unexpected.take() {
            self.problem(line, &format!("{text:?} returned {}", self.result));
        }
    }

    fn expect(&self, line: usize, what: &str, found: u64, expected: u64) {
        if found != expected {
            self.problem(line, &format!("{what} is {found:#x}, not {expected:#x}"));
        }
    }

    fn expect_written(
        &self,
        line: usize,
        what: &str,
        found: u64,
        expected: &Written,
    ) -> Result<(), RunError> {
        let well = match expected {
            Written::Null => found == 0,
            Written::NonNull => found != 0 && found != UNWRITTEN,
            Written::Unwritten => found == UNWRITTEN,
            Written::Same(other) => found == self.resolve(line, other)?,
            Written::Other(other) => found != self.resolve(line, other)?,
        };
        if !well {
            self.problem(
                line,
                &format!("{what} is {found:#x}, expected {expected:?}"),
            );
        }
        Ok(())
    }

    fn init(&mut self, statement: &Statement, init: &Init) -> Result<(), RunError> {
        let plugin = self.plugin(statement.line)?;
        let name = init
            .comm_name
            .as_deref()
            .and_then(|name| CString::new(name).ok());
        let arguments = InitArguments {
            comm_id: init.comm_id,
            comm_name: name.as_deref(),
            nodes: init.nodes,
            ranks: init.ranks,
            rank: init.rank,
            mask: init.mask,
            logger: init.logger,
        };
        let mut context = 0;
        logger::communicator_begins();
        let result = plugin.init(init.context.then_some(&mut context), &arguments);
        if init.context && context == UNWRITTEN {
            self.problem(statement.line, "init left *context unwritten");
        }
        self.context = context;
        let mut names = self.shared.names.lock();
        names.handles.insert(init.name.clone(), context);
        names.last_context = context;
        drop(names);
        self.called(statement, result);
        Ok(())
    }

    fn start(&mut self, statement: &Statement, start: &Start) -> Result<(), RunError> {
        let line = statement.line;
        let plugin = self.plugin(line)?;
        let context = match &start.context {
            Some(context) => self.resolve(line, context)?,
            None => self.shared.names.lock().last_context,
        };
        let mut fields = start.fields;
        if fields.parent_group == 0 {
            fields.parent_group = self.resolve(line, &start.group)?;
        }
        if start.kind == Kind::PROXY_OP && !start.has_pid {
            fields.pid = process::id().cast_signed();
        }
        // Lives during the call only, as NCCL's does.
        let net = start.net.map(NetBlock::new);
        if let Some(net) = &net {
            (fields.net_id, fields.net_data) = (net.id(), net.address());
        }
        let parent = self.resolve(line, &start.parent)?;
        let mut descriptor =
            Descriptor::new(plugin.version(), start.kind, parent, start.rank, &fields);
        for (offset, width, value) in &start.pokes {
            descriptor.poke(*offset, *width, *value);
        }
        let mut handle = 0;
        let result = plugin.start(
            context,
            start.handle.then_some(&mut handle),
            start.descriptor.then_some(&mut descriptor),
        );
        if start.handle && handle == UNWRITTEN {
            self.problem(line, "startEvent left *eHandle unwritten");
        }
        self.handle = handle;
        self.shared
            .names
            .lock()
            .handles
            .insert(start.name.clone(), handle);
        self.called(statement, result);
        Ok(())
    }

    fn state(
        &mut self,
        statement: &Statement,
        handle: &Handle,
        number: u32,
        args: StateArgs,
    ) -> Result<(), RunError> {
        let handle = self.resolve(statement.line, handle)?;
        let plugin = self.plugin(statement.line)?;
        let mut args = RawStateArgs::new(plugin.version(), args);
        let result = plugin.state(handle, number, args.as_mut());
        self.called(statement, result);
        Ok(())
    }
}
