//! Runs a script's commands against a plugin.

use std::collections::BTreeMap;
use std::ffi::{CString, c_int};
use std::path::PathBuf;
use std::process;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Barrier};
use std::thread::{self, JoinHandle};

use anyhow::Context as _;
use parking_lot::Mutex;

use super::command::{Command, Handle, Init, Place, Start, Written};
use super::parse::{Block, Statement};
use super::system;
use crate::descriptor::{Descriptor, NetData};
use crate::interface::{Kind, Version};
use crate::nccl;
use crate::plugin::{InitArguments, Plugin, UNWRITTEN};

#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) calls: u64,
    /// What was not as it should be, one sentence each.
    pub(crate) problems: Vec<String>,
}

/// Runs a script. The plugin is loaded before the first line, unless that is a `load`. An error is that the script
/// cannot go on; what the plugin does wrong is a problem.
pub(crate) fn run(script: &Block, plugin: PathBuf, table: Option<Version>) -> anyhow::Result<Done> {
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
    let first = script.first().map(|statement| statement.command(Place::default()));
    if !matches!(first, Some(Ok(Command::Load(_)))) {
        thread.load(None)?;
    }
    thread.block(script)?;
    thread.join(None)?;
    let problems = std::mem::take(&mut *shared.problems.lock());
    Ok(Done { calls: shared.calls.load(Ordering::Relaxed), problems })
}

pub(super) type Running = JoinHandle<anyhow::Result<()>>;

/// What all threads of a script share.
pub(super) struct Shared {
    path: PathBuf,
    table: Option<Version>,
    plugin: Mutex<Option<Arc<Plugin>>>,
    pub(super) names: Mutex<Names>,
    pub(super) threads: Mutex<BTreeMap<String, Running>>,
    barriers: Mutex<BTreeMap<String, Arc<Barrier>>>,
    pub(super) problems: Mutex<Vec<String>>,
    calls: AtomicU64,
}

#[derive(Default)]
pub(super) struct Names {
    handles: BTreeMap<String, u64>,
    last_context: u64,
}

/// One thread of a script.
pub(super) struct Thread {
    pub(super) shared: Arc<Shared>,
    pub(super) place: Place,
    line: usize,
    handle: u64,
    context: u64,
}

impl Thread {
    pub(super) const fn new(shared: Arc<Shared>, place: Place) -> Self {
        Self { shared, place, line: 0, handle: 0, context: 0 }
    }

    pub(super) fn block(&mut self, block: &Block) -> anyhow::Result<()> {
        block.iter().try_for_each(|statement| {
            self.line = statement.line;
            let done = self.statement(statement);
            // A line of the block has said where already.
            if statement.block.is_empty() {
                return done.with_context(|| format!("line {}", statement.line));
            }
            done
        })
    }

    fn statement(&mut self, statement: &Statement) -> anyhow::Result<()> {
        let command = statement.command(self.place).map_err(anyhow::Error::msg)?;
        match command {
            Command::Load(version) => self.load(version)?,
            Command::Unload => *self.shared.plugin.lock() = None,
            Command::Init(init) => self.init(statement, &init)?,
            Command::Start(start) => self.start(statement, &start)?,
            Command::Stop(handle) => {
                let handle = self.resolve(&handle)?;
                let result = self.plugin()?.stop(handle);
                self.called(statement, result);
            }
            Command::State { handle, number, args } => {
                let handle = self.resolve(&handle)?;
                let plugin = self.plugin()?;
                let result = plugin.state(handle, number, args.raw(plugin.version).as_mut());
                self.called(statement, result);
            }
            Command::Finalize(context) => {
                let context = self.resolve(&context)?;
                let result = self.plugin()?.finalize(context);
                self.called(statement, result);
            }
            Command::ExpectHandle(written) => self.expect_written("the handle", self.handle, &written)?,
            Command::ExpectContext(written) => self.expect_written("the context", self.context, &written)?,
            Command::ExpectMask(mask) => self.expect("the mask", nccl::mask_now(), mask),
            Command::Mask(mask) => nccl::mask().store(mask.cast_signed(), Ordering::Relaxed),
            Command::Set(name, value) => {
                let value = self.resolve(&value)?;
                self.name(name, value);
            }
            Command::Give(name) => system::give(&name, self.resolve(&Handle::Name(name.clone()))?)?,
            Command::Take(name) => {
                let value = system::take(&name)?;
                self.name(name, value);
            }
            Command::Sleep(time) => thread::sleep(time),
            Command::Repeat(times) => {
                let outer = self.place.round;
                for round in 0..times {
                    self.place.round = round;
                    self.block(&statement.block)?;
                }
                self.place.round = outer;
            }
            Command::If(handle) => {
                if self.resolve(&handle)? != 0 {
                    self.block(&statement.block)?;
                }
            }
            Command::Thread(name) => self.spawn(statement, name)?,
            Command::Join(name) => self.join(name.as_deref())?,
            Command::Parallel(threads) => self.parallel(statement, threads)?,
            Command::Barrier(name, threads) => {
                self.barrier(name, threads).wait();
            }
            Command::Fork(expected) => self.fork(statement, expected)?,
            Command::Kill(signal) => system::kill_self(signal)?,
            Command::Exit(status) => system::exit(status),
            Command::ExitNow(status) => system::exit_now(status),
        }
        Ok(())
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

    fn barrier(&self, name: String, threads: usize) -> Arc<Barrier> {
        let mut barriers = self.shared.barriers.lock();
        Arc::clone(barriers.entry(name).or_insert_with(|| Arc::new(Barrier::new(threads))))
    }

    fn name(&self, name: String, handle: u64) {
        self.shared.names.lock().handles.insert(name, handle);
    }

    fn resolve(&self, handle: &Handle) -> anyhow::Result<u64> {
        match handle {
            Handle::Raw(raw) => Ok(*raw),
            Handle::Name(name) => {
                let found = self.shared.names.lock().handles.get(name).copied();
                found.with_context(|| format!("nothing has the name {name:?} yet"))
            }
        }
    }

    pub(super) fn problem(&self, line: usize, what: &str) {
        self.shared.problems.lock().push(format!("line {line}: {what}"));
    }

    /// Counts a call; its failure is a problem.
    fn called(&self, statement: &Statement, result: c_int) {
        self.shared.calls.fetch_add(1, Ordering::Relaxed);
        if result != 0 {
            self.problem(statement.line, &format!("{:?} returned {result}", statement.text()));
        }
    }

    fn expect(&self, what: &str, found: u32, expected: u32) {
        if found != expected {
            self.problem(self.line, &format!("{what} is {found:#x}, not {expected:#x}"));
        }
    }

    fn expect_written(&self, what: &str, found: u64, expected: &Written) -> anyhow::Result<()> {
        let well = match expected {
            Written::Null => found == 0,
            Written::NonNull => found != 0 && found != UNWRITTEN,
            Written::Same(other) => found == self.resolve(other)?,
            Written::Other(other) => found != self.resolve(other)?,
        };
        if !well {
            self.problem(self.line, &format!("{what} is {found:#x}, expected {expected:?}"));
        }
        Ok(())
    }

    fn init(&mut self, statement: &Statement, init: &Init) -> anyhow::Result<()> {
        let plugin = self.plugin()?;
        let name = init.comm_name.as_deref().and_then(|name| CString::new(name).ok());
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
        nccl::communicator_begins();
        let result = plugin.init(init.context.then_some(&mut context), &arguments);
        if init.context && context == UNWRITTEN {
            self.problem(self.line, "init left *context unwritten");
        }
        self.context = context;
        self.name(init.name.clone(), context);
        self.shared.names.lock().last_context = context;
        self.called(statement, result);
        Ok(())
    }

    fn start(&mut self, statement: &Statement, start: &Start) -> anyhow::Result<()> {
        let plugin = self.plugin()?;
        let context = match &start.context {
            Some(context) => self.resolve(context)?,
            None => self.shared.names.lock().last_context,
        };
        let mut fields = start.fields.clone();
        if fields.get("parent_group").is_none() {
            fields.put("parent_group", self.resolve(&start.group)?.into());
        }
        if start.kind == Kind::PROXY_OP && fields.get("pid").is_none() {
            fields.put("pid", u64::from(process::id()).into());
        }
        // Lives during the call only, as NCCL's does.
        let net = start.net.map(|net| (net.id(), NetData::block(net)));
        if let Some((id, block)) = &net {
            fields.put("net_id", (*id).into());
            fields.put("net_data", (block.as_ptr().expose_provenance() as u64).into());
        }
        let parent = self.resolve(&start.parent)?;
        let mut descriptor = Descriptor::new(plugin.version, start.kind, parent, start.rank, &fields);
        for (offset, width, value) in &start.pokes {
            descriptor.poke(*offset, *width, *value);
        }
        let mut handle = 0;
        let result =
            plugin.start(context, start.handle.then_some(&mut handle), start.descriptor.then_some(&mut descriptor));
        if start.handle && handle == UNWRITTEN {
            self.problem(self.line, "startEvent left *eHandle unwritten");
        }
        self.handle = handle;
        self.name(start.name.clone(), handle);
        self.called(statement, result);
        Ok(())
    }
}
