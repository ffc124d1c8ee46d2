//! Writes what a rank did as MPI events.

use otf2::{Attributes, Collective, CommRef, EventWriter, Message, RegionRef};

use super::rank::Rank;
use super::regions::{self, FINALIZE, INIT, IRECV, ISEND, MAIN, WAIT_RECEIVE, WAIT_SEND};

const NONE: &Attributes = Attributes::NONE;

#[derive(Clone, Copy, Debug)]
pub struct Numbers {
    pub comm: CommRef,
    pub first_region: u32,
    pub first_request: u64,
}

impl Numbers {
    fn region(self, number: u32) -> RegionRef {
        RegionRef::new(self.first_region + number)
    }
}

#[derive(Clone, Copy, Debug, Default)]
pub struct Written {
    pub last: u64,
    /// The number of events that were moved later, so that no two share a time.
    pub moved: u64,
    pub most_moved: u64,
}

/// Writes all that a rank did, between MPI_Init and MPI_Finalize. No two events share a time: Pipit sorts by time.
pub(super) fn write_process(
    to: &mut EventWriter<'_>,
    rank: &Rank,
    numbers: Numbers,
    (first, last): (u64, u64),
) -> otf2::Result<Written> {
    let mut times = Times { free: Some(first), written: Written::default() };
    to.enter(times.of(first), numbers.region(MAIN), NONE)?;
    to.enter(times.of(first + 1), numbers.region(INIT), NONE)?;
    to.leave(times.of(first + 2), numbers.region(INIT), NONE)?;
    let mut times = Events::new(to, rank, numbers, times).write()?;
    let end = last.max(times.written.last + 1);
    to.enter(times.of(end), numbers.region(FINALIZE), NONE)?;
    to.leave(times.of(end + 1), numbers.region(FINALIZE), NONE)?;
    to.leave(times.of(end + 2), numbers.region(MAIN), NONE)?;
    Ok(times.written)
}

/// Writes all that a rank did, on a thread of a process that already has MPI_Init and MPI_Finalize.
pub fn write_thread(to: &mut EventWriter<'_>, rank: &Rank, numbers: Numbers) -> otf2::Result<()> {
    Events::new(to, rank, numbers, Times::default()).write().map(drop)
}

#[derive(Debug, Default)]
struct Times {
    /// The first unused time; `None` if events may share a time.
    free: Option<u64>,
    written: Written,
}

impl Times {
    /// The time to write for an event that happened at `happened`: that time, or the next unused one.
    fn of(&mut self, happened: u64) -> u64 {
        let time = self.free.map_or(happened, |free| happened.max(free));
        let by = time - happened;
        self.free = self.free.map(|_| time + 1);
        self.written.last = time;
        self.written.moved += u64::from(by > 0);
        self.written.most_moved = self.written.most_moved.max(by);
        time
    }
}

/// What happens to a message at one of its ends, in the order in which simultaneous steps are written: a message often
/// begins when the previous one ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Step {
    Complete,
    Post,
    /// Completes a message of no duration.
    CompleteAtOnce,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Direction {
    Receive,
    Send,
}

impl Direction {
    const fn wait(self) -> u32 {
        match self {
            Self::Send => WAIT_SEND,
            Self::Receive => WAIT_RECEIVE,
        }
    }
}

/// An end of a message: time, step, direction, and index in its list.
type End = (u64, Step, Direction, usize);

struct Events<'a, 'b> {
    to: &'a mut EventWriter<'b>,
    rank: &'a Rank,
    numbers: Numbers,
    time: u64,
    times: Times,
    wait: Option<Direction>,
    receives: usize,
    sends: usize,
    /// The requests of sends that are done but not completed.
    sent: Vec<u64>,
}

impl<'a, 'b> Events<'a, 'b> {
    const fn new(to: &'a mut EventWriter<'b>, rank: &'a Rank, numbers: Numbers, times: Times) -> Self {
        Self { to, rank, numbers, time: times.written.last, times, wait: None, receives: 0, sends: 0, sent: Vec::new() }
    }

    fn write(mut self) -> otf2::Result<Times> {
        let rank = self.rank;
        let mut steps: Vec<End> = Vec::new();
        for (direction, list) in [(Direction::Send, &rank.sends), (Direction::Receive, &rank.receives)] {
            for (number, end) in list.iter().enumerate() {
                steps.push((end.begin, Step::Post, direction, number));
                steps.push(match end.end > end.begin {
                    true => (end.end, Step::Complete, direction, number),
                    false => (end.begin, Step::CompleteAtOnce, direction, number),
                });
            }
        }
        steps.sort_unstable();
        let mut steps = steps.into_iter().peekable();
        let mut collectives = rank.collectives.iter().peekable();
        loop {
            let until = collectives.peek().map_or(u64::MAX, |next| next.begin);
            if let Some((at, step, direction, number)) = steps.next_if(|(at, ..)| *at <= until) {
                self.advance(at)?;
                self.message(step, direction, number)?;
            } else if let Some(collective) = collectives.next() {
                self.advance(collective.begin)?;
                self.complete_sends()?;
                self.wait(None)?;
                let region = self.numbers.region(regions::collective(collective.collective.op));
                self.to.enter(self.times.of(self.time), region, NONE)?;
                self.to.mpi_collective_begin(self.times.of(self.time), NONE)?;
                self.time = self.time.max(collective.end);
                let record = Collective { comm: self.numbers.comm, ..collective.collective };
                self.to.mpi_collective_end(self.times.of(self.time), &record, NONE)?;
                self.to.leave(self.times.of(self.time), region, NONE)?;
            } else {
                self.complete_sends()?;
                self.wait(None)?;
                return Ok(self.times);
            }
        }
    }

    /// Writes one end of a message; request numbers are the indices of sends, then of receives. Receives are waited for
    /// first, so that they get all the waiting; a send that finishes meanwhile is completed after them.
    fn message(&mut self, step: Step, direction: Direction, number: usize) -> otf2::Result<()> {
        let (list, before) = match direction {
            Direction::Send => (&self.rank.sends, 0),
            Direction::Receive => (&self.rank.receives, self.rank.sends.len()),
        };
        let Some(end) = list.get(number) else {
            return Ok(());
        };
        let message = Message { peer: end.peer, comm: self.numbers.comm, tag: 0, bytes: end.bytes };
        let request = self.numbers.first_request + (before + number) as u64;
        if step == Step::Post {
            self.wait(None)?;
            let region = self.numbers.region(if direction == Direction::Send { ISEND } else { IRECV });
            self.to.enter(self.times.of(self.time), region, NONE)?;
            if direction == Direction::Send {
                self.sends += 1;
                self.to.mpi_isend(self.times.of(self.time), &message, request, NONE)?;
            } else {
                self.receives += 1;
                self.to.mpi_irecv_request(self.times.of(self.time), request, NONE)?;
            }
            return self.to.leave(self.times.of(self.time), region, NONE);
        }
        if direction == Direction::Send {
            self.sends -= 1;
            self.sent.push(request);
        } else {
            self.receives -= 1;
            self.wait(Some(Direction::Receive))?;
            self.to.mpi_irecv(self.times.of(self.time), &message, request, NONE)?;
            self.wait(None)?;
        }
        if self.receives == 0 { self.complete_sends() } else { Ok(()) }
    }

    fn complete_sends(&mut self) -> otf2::Result<()> {
        for request in std::mem::take(&mut self.sent) {
            self.wait(Some(Direction::Send))?;
            self.to.mpi_isend_complete(self.times.of(self.time), request, NONE)?;
            self.wait(None)?;
        }
        Ok(())
    }

    /// Advances the time; if messages are pending, the rank waits for one.
    fn advance(&mut self, at: u64) -> otf2::Result<()> {
        let next = match (self.receives, self.sends) {
            (0, 0) => None,
            (0, _) => Some(Direction::Send),
            _ => Some(Direction::Receive),
        };
        if next.is_some() && at > self.time {
            self.wait(next)?;
        }
        self.time = self.time.max(at);
        Ok(())
    }

    fn wait(&mut self, wanted: Option<Direction>) -> otf2::Result<()> {
        if wanted == self.wait {
            return Ok(());
        }
        if let Some(before) = self.wait {
            self.to.leave(self.times.of(self.time), self.numbers.region(before.wait()), NONE)?;
        }
        if let Some(next) = wanted {
            self.to.enter(self.times.of(self.time), self.numbers.region(next.wait()), NONE)?;
        }
        self.wait = wanted;
        Ok(())
    }
}
