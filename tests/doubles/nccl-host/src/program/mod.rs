//! Runs programs: for each rank what it calls, word by word (`--program`). Results are not checked, as most programs go
//! wrong on purpose.

mod words;

pub(crate) use words::Programs;

use crate::cuda::{Buffer, Device, Graph, Stream};
use crate::nccl::{CommOptions, Communicator, Element, Nccl};
use crate::rendezvous::Rendezvous;
use crate::worker::wait_to_be_killed;
use anyhow::Context as _;
use std::collections::BTreeMap;
use std::time::Duration;
use words::{Called, Word};

/// A rank with its program.
pub(crate) struct Program<'p> {
    pub(crate) all: &'p Programs,
    pub(crate) rank: usize,
    pub(crate) nccl: &'static Nccl,
    pub(crate) meeting: &'p Rendezvous,
}

/// A rank that runs.
struct Runner<'r> {
    program: &'r Program<'r>,
    streams: &'r BTreeMap<u8, Stream>,
    floats: &'r Buffer<'r, f32>,
    ints: &'r Buffer<'r, i32>,
    comms: BTreeMap<char, Communicator>,
    graphs: Vec<Graph<'r>>,
}

impl Program<'_> {
    /// Runs the words and ends the communicators that are left.
    pub(crate) fn run(&self, device: Device) -> anyhow::Result<()> {
        let words = self.all.0.get(self.rank).context("a program for each rank")?;
        let streams = words::streams(words).into_iter().map(|number| Ok((number, device.stream()?)));
        let streams: BTreeMap<u8, Stream> = streams.collect::<anyhow::Result<_>>()?;
        let first = streams.get(&1).context("each program has stream 1")?;
        let [floats, ints] = [false, true].map(|is_int| self.all.most_elements(self.rank, is_int));
        let floats = Buffer::fill(first, floats, |_| 1.0_f32)?;
        let ints = Buffer::fill(first, ints, |_| 1_i32)?;
        // First of all, as another member may come before the one that makes the id.
        for comm in self.all.comms().into_iter().filter(|comm| !self.all.is_split_off(*comm)) {
            if self.all.members(comm).first() == Some(&self.rank) {
                self.meeting.put_id(&comm.to_string(), &self.nccl.unique_id()?)?;
            }
        }
        let (comms, graphs) = (BTreeMap::new(), Vec::new());
        let mut runner = Runner { program: self, streams: &streams, floats: &floats, ints: &ints, comms, graphs };
        for comm in self.all.comms().into_iter().filter(|comm| self.all.is_made_first(*comm)) {
            if self.all.members(comm).contains(&self.rank) {
                runner.init(comm, false)?;
            }
        }
        runner.words(words)?;
        runner.synchronize()?;
        runner.graphs.clear();
        runner.comms.into_values().try_for_each(Communicator::destroy)
    }
}

impl Runner<'_> {
    fn words(&mut self, words: &[Word]) -> anyhow::Result<()> {
        let rank = self.program.rank;
        words.iter().try_for_each(|word| self.word(word).with_context(|| format!("rank {rank}, {word:?}")))
    }

    fn word(&mut self, word: &Word) -> anyhow::Result<()> {
        let nccl = self.program.nccl;
        match word {
            Word::Call(called) if called.is_int => self.call(self.ints, called)?,
            Word::Call(called) => self.call(self.floats, called)?,
            Word::GroupStart => nccl.group_start()?,
            Word::GroupEnd => nccl.group_end(self.comms.values().next().context("a communicator")?)?,
            Word::Init { comm, nonblocking } => self.init(*comm, *nonblocking)?,
            Word::Split { comm, made } => {
                let (rank, ranks) = self.program.all.place(self.program.rank, *made)?;
                let key = i32::try_from(rank)?;
                let new = self.comm(*comm)?.split(0, key, made.to_string(), rank, ranks)?;
                self.comms.insert(*made, new);
            }
            Word::Destroy(comm) => self.comms.remove(comm).context("no such communicator")?.destroy()?,
            Word::Abort(comm) => self.comms.remove(comm).context("no such communicator")?.abort()?,
            Word::Graph(words) => {
                let graph = self.stream(1)?.capture(|| self.words(words))?;
                self.graphs.push(graph);
            }
            Word::Launch => self.graphs.last().context("no graph yet")?.launch()?,
            Word::Synchronize => self.synchronize()?,
            Word::WaitSeconds(seconds) => std::thread::sleep(Duration::from_secs_f64(*seconds)),
            Word::Sleep => wait_to_be_killed(),
            Word::Exit => std::process::exit(0),
            Word::Kill => raise(libc::SIGKILL),
            Word::Stop => raise(libc::SIGSTOP),
            Word::Variable(..) => {}
        }
        Ok(())
    }

    fn call<T: Element>(&self, buffer: &Buffer<'_, T>, called: &Called) -> anyhow::Result<()> {
        let comm = self.comm(called.comm)?;
        let (reads, writes) = called.call.extent(called.count, comm.ranks);
        comm.call(called.call, &buffer.part(0..reads)?, &buffer.part(0..writes)?, self.stream(called.stream)?)
    }

    /// A communicator that is there: a nonblocking one may still be made.
    fn comm(&self, comm: char) -> anyhow::Result<&Communicator> {
        let comm = self.comms.get(&comm).context("no such communicator")?;
        comm.settle("ncclCommInitRankConfig", 0)?;
        Ok(comm)
    }

    fn init(&mut self, comm: char, nonblocking: bool) -> anyhow::Result<()> {
        let Program { all, rank, nccl, meeting } = self.program;
        let (place, ranks) = all.place(*rank, comm)?;
        let id = meeting.wait_for_id(&comm.to_string());
        let wanted = CommOptions { name: None, nonblocking };
        let new = if nonblocking { Communicator::start_init_rank } else { Communicator::init_rank };
        self.comms.insert(comm, new(nccl, id, place, ranks, wanted)?);
        Ok(())
    }

    fn synchronize(&self) -> anyhow::Result<()> {
        self.streams.values().try_for_each(Stream::synchronize)
    }
}

impl<'r> Runner<'r> {
    fn stream(&self, number: u8) -> anyhow::Result<&'r Stream> {
        self.streams.get(&number).context("no such stream")
    }
}

fn raise(signal: i32) {
    // SAFETY: takes a number by value; what the signal does to this process is what the program wants.
    let _ = unsafe { libc::raise(signal) };
}
