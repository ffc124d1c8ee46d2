//! The work: one all-reduce after the other on each thread, callbacks counted one by one.

use std::io;
use std::path::Path;
use std::process;
use std::thread;
use std::time::Duration;

use super::ledger::{Call, End, Ledger};
use crate::descriptor::Descriptor;
use crate::fields::{Fields, Text};
use crate::kind::Kind;
use crate::logger;
use crate::state_args::{RawStateArgs, StateArgs};
use crate::table::{InitArguments, Plugin, UNWRITTEN};

/// How to work.
#[derive(Clone, Copy, Debug)]
pub struct Options<'a> {
    /// Where to count.
    pub ledger: &'a Path,
    /// Number of threads, each with a communicator.
    pub threads: u8,
    /// The rank in each.
    pub rank: i32,
    /// The size of each.
    pub ranks: i32,
    /// Rest after an operation.
    pub rest: Duration,
}

/// Works until the ledger says how to end. The plugin must ask for all events, or those that it does not ask for are missing
/// from the ledger, too.
///
/// # Errors
/// The ledger or a thread cannot be made.
#[expect(
    clippy::exit,
    clippy::disallowed_methods,
    reason = "it is what is tried: a program that ends without finalize"
)]
pub fn run(plugin: &Plugin, options: &Options<'_>) -> io::Result<()> {
    let ledger = Ledger::create(options.ledger)?;
    thread::scope(|scope| {
        let ledger = &ledger;
        let mut threads = Vec::new();
        for number in 0..options.threads {
            let work = move || Worker::begin(plugin, ledger, options, number).work();
            let name = format!("rank {}", number);
            threads.push(
                thread::Builder::new()
                    .name(name)
                    .spawn_scoped(scope, work)?,
            );
        }
        loop {
            match ledger.end() {
                End::GoOn => thread::sleep(Duration::from_micros(200)),
                End::Orderly => return Ok(()),
                End::Exit => break,
                // SAFETY: never returns, touches no memory.
                End::ExitNow => unsafe { libc::_exit(0) },
                End::Abort => process::abort(),
            }
        }
        for thread in threads {
            let _panicked = thread.join();
        }
        process::exit(0)
    })
}

/// The end has come in the middle of an operation.
struct Over;

struct Worker<'a> {
    plugin: &'a Plugin,
    ledger: &'a Ledger,
    options: &'a Options<'a>,
    thread: u8,
    context: u64,
    mask: u32,
}

impl<'a> Worker<'a> {
    fn begin(plugin: &'a Plugin, ledger: &'a Ledger, options: &'a Options<'a>, thread: u8) -> Self {
        let arguments = InitArguments {
            comm_id: 0x7027_0000 + u64::from(thread),
            comm_name: None,
            nodes: 1,
            ranks: options.ranks,
            rank: options.rank,
            mask: true,
            logger: true,
        };
        let mut context = 0;
        logger::communicator_begins();
        plugin.init(Some(&mut context), &arguments);
        Self {
            plugin,
            ledger,
            options,
            thread,
            context: if context == UNWRITTEN { 0 } else { context },
            mask: logger::mask(),
        }
    }

    fn work(&self) {
        for sequence in 0.. {
            if self.operation(sequence).is_err() || self.ledger.end() == End::Orderly {
                break;
            }
            thread::sleep(self.options.rest);
        }
        if self.ledger.end() == End::Orderly {
            self.plugin.finalize(self.context);
            logger::communicator_ends();
        }
    }

    /// The callbacks of an all-reduce over the network, as of NCCL 2.28 and later.
    fn operation(&self, sequence: u64) -> Result<(), Over> {
        let call = Fields {
            func: Text::literal(c"AllReduce"),
            count: 1 << 20,
            datatype: Text::literal(c"ncclFloat32"),
            stream: 0x7f00_1000,
            sequence,
            send_buffer: 0x7f00_0000_0000,
            recv_buffer: 0x7f10_0000_0000,
            channels: 1,
            warps: 17,
            algorithm: Text::literal(c"RING"),
            protocol: Text::literal(c"SIMPLE"),
            depth: 1,
            ..Fields::default()
        };
        let group_api = self.start(Kind::GROUP_API, 0, &call)?;
        self.state(Kind::GROUP_API, group_api, 23, StateArgs::Null)?;
        let coll_api = self.start(Kind::COLL_API, group_api, &call)?;
        self.stop(Kind::COLL_API, coll_api)?;
        self.state(Kind::GROUP_API, group_api, 24, StateArgs::Null)?;
        let launch = self.start(Kind::KERNEL_LAUNCH, group_api, &call)?;
        self.stop(Kind::KERNEL_LAUNCH, launch)?;
        let group = self.start(Kind::GROUP, 0, &call)?;
        let planned = Fields {
            parent_group: group,
            ..call
        };
        let coll = self.start(Kind::COLL, coll_api, &planned)?;
        self.stop(Kind::COLL, coll)?;
        self.stop(Kind::GROUP, group)?;
        self.stop(Kind::GROUP_API, group_api)?;
        let control = self.start(Kind::PROXY_CTRL, 0, &Fields::default())?;
        self.state(
            Kind::PROXY_CTRL,
            control,
            17,
            StateArgs::Appended { operations: 0 },
        )?;
        self.stop(Kind::PROXY_CTRL, control)?;
        self.transfer(coll, true)?;
        self.transfer(coll, false)
    }

    /// A proxy operation of two steps.
    fn transfer(&self, coll: u64, is_send: bool) -> Result<(), Over> {
        let fields = Fields {
            pid: process::id().cast_signed(),
            peer: (self.options.rank + 1) % self.options.ranks.max(1),
            steps: 2,
            chunk_bytes: 1 << 19,
            is_send,
            ..Fields::default()
        };
        let operation = self.start(Kind::PROXY_OP, coll, &fields)?;
        self.state(Kind::PROXY_OP, operation, 19, StateArgs::Zero)?;
        for step in 0..2 {
            let fields = Fields {
                step,
                ..Fields::default()
            };
            let event = self.start(Kind::PROXY_STEP, operation, &fields)?;
            let states = if is_send { [8, 20, 9] } else { [10, 11, 12] };
            for number in states {
                self.state(
                    Kind::PROXY_STEP,
                    event,
                    number,
                    StateArgs::Step { bytes: 1 << 19 },
                )?;
            }
            self.stop(Kind::PROXY_STEP, event)?;
        }
        self.stop(Kind::PROXY_OP, operation)
    }

    fn start(&self, kind: Kind, parent: u64, fields: &Fields) -> Result<u64, Over> {
        self.go_on()?;
        if !self.is_wanted(kind) {
            return Ok(0);
        }
        let version = self.plugin.version();
        let mut descriptor = Descriptor::new(version, kind, parent, self.options.rank, fields);
        let mut handle = 0;
        self.plugin
            .start(self.context, Some(&mut handle), Some(&mut descriptor));
        self.ledger.returned(self.thread, Call::Start, kind);
        Ok(handle)
    }

    fn state(&self, kind: Kind, handle: u64, number: u32, args: StateArgs) -> Result<(), Over> {
        self.go_on()?;
        if self.is_wanted(kind) {
            let mut args = RawStateArgs::new(self.plugin.version(), args);
            self.plugin.state(handle, number, args.as_mut());
            self.ledger.returned(self.thread, Call::State, kind);
        }
        Ok(())
    }

    fn stop(&self, kind: Kind, handle: u64) -> Result<(), Over> {
        self.go_on()?;
        if self.is_wanted(kind) {
            self.plugin.stop(handle);
            self.ledger.returned(self.thread, Call::Stop, kind);
        }
        Ok(())
    }

    fn is_wanted(&self, kind: Kind) -> bool {
        u64::from(self.mask) & kind.event_type() != 0
    }

    /// Threads that stop where they are leave their operation open.
    fn go_on(&self) -> Result<(), Over> {
        match self.ledger.end() {
            End::Exit => Err(Over),
            _ => Ok(()),
        }
    }
}
