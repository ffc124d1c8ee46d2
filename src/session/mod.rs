//! The life of recording in this process: from the first `init` to the last `finalize`, and what happens between.
//!
//! A *session* begins with the first `init`, or with the call that leads to it if NVTX shows that. It ends with the
//! last `finalize`, or at exit if there is none (a process that exits without `ncclCommDestroy` gets no finalize at
//! all). A later `init` begins a new session with its own part directory. It waits for a thread that is ending the
//! recording before it, but not for the writing of that part. An exit waits for both. A forked child never records: it
//! has none of the plugin's threads, and shares its parent's journal pages.
//!
//! No function here reports failure to NCCL: in most releases a failing `init` crashes or corrupts NCCL later. A
//! process that cannot record logs the reason once, and asks for no events.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::MutexGuard;

use crate::host::{dumps, logger, memory, process};
use crate::scorep::{self, CommRegion, substrate};
use crate::{control, gpu, record};

use in_process::Recorded;
use journal::clock::{self, ticks};
use journal::part::part_name;
use journal::uninterrupted::not_cancelled;
use journal::writer::Lost;
use nccl_events::ids::{ContextId, ProcessTag};
use nccl_events::{CommInit, event};
use settings::{Config, Verbosity};

mod begin;
mod close;
mod communicators;
mod description;
mod directories;
mod expected;
mod first_init;
mod maintenance;
mod snapshots;
mod state;
mod test_clock;

use close::Moment;
use state::{SESSIONS, Sessions};

#[derive(Clone, Copy, Debug)]
pub struct InitReply {
    /// The communicator's context, unique in the process and never NULL.
    pub context: ContextId,
    /// The event mask; zero if this process does not record.
    pub mask: u32,
}

/// How long an exit waits for threads that close a session.
const PATIENCE: Duration = Duration::from_secs(90);

static IDLE_CONTEXTS: AtomicU64 = AtomicU64::new(0);

pub fn init(comm: &CommInit<'_>) -> InitReply {
    // Before the first reading: until a source is selected, ticks come from the system clock.
    clock::select();
    let begin_ticks = ticks();
    if process::is_forked() {
        return idle();
    }
    let mut sessions = SESSIONS.lock();
    begin_session(&mut sessions, comm, false);
    let Some(session) = &mut sessions.current else {
        record::communicator_is_late();
        return idle();
    };
    session.note_init(comm);
    let _region = CommRegion::init();
    let (context, repetition) = session.communicators.add(session.tag, comm);
    dumps::number(&part_name(&session.part), session.communicators.made());
    // Only the bits that this version of the interface has.
    let mask = (session.config.mask | control::raised()) & event::kinds(comm.table);
    record::with_slot_writer(Lost::Communicator, |slot_writer| {
        slot_writer.comm_init(context.get(), begin_ticks, repetition, comm)
    });
    scorep::communicator(context.get(), comm);
    for (context, switch) in session.largest.begin(context, repetition, comm) {
        record::record_turn(context, &switch);
    }
    if session.config.is_flight {
        let maintenance = &session.maintenance;
        maintenance.communicator(context.get(), begin_ticks, repetition, comm);
    }
    let gpus = session.gpus.clone();
    drop(sessions);
    // Outside of the lock, because this calls CUDA and waits for it.
    if let Some(gpus) = gpus {
        gpus.communicator_begins(context.get());
    }
    InitReply { context, mask }
}

/// A communicator is being made. NCCL will call `init`, but from 2.27 on only when all ranks have come, and one may
/// never come: so this begins the session. Returns whether anything is recorded now.
pub fn begin_before_init() -> bool {
    if process::is_forked() {
        return false;
    }
    let Some(comm) = expected::communicator() else {
        return false;
    };
    let mut sessions = SESSIONS.lock();
    begin_session(&mut sessions, &comm, true);
    sessions.current.is_some()
}

/// A communicator ends. Unknown contexts and repeated ends are ignored.
pub fn finalize(context: u64) {
    let begin_ticks = ticks();
    if process::is_forked() {
        return;
    }
    let _region = CommRegion::destroy();
    let (ended, gpus) = {
        let mut sessions = SESSIONS.lock();
        let Some(session) = &mut sessions.current else {
            return;
        };
        if !session.communicators.remove(context) {
            return;
        }
        record::with_slot_writer(Lost::Communicator, |slot_writer| slot_writer.comm_finalize(context, begin_ticks));
        let gpus = session.gpus.clone();
        let ended = if session.communicators.is_empty() {
            sessions.take()
        } else {
            for (context, switch) in session.largest.end(context) {
                record::record_turn(context, &switch);
            }
            None
        };
        (ended, gpus)
    };
    if let Some(gpus) = gpus {
        gpus.communicator_ends(context);
    }
    if let Some((session, closing)) = ended {
        close::close(session, closing, Moment::LastFinalize);
    }
}

/// What is being recorded, with the clock known up to now; `None` without a session.
pub fn recorded() -> Option<Recorded> {
    if process::is_forked() {
        return None;
    }
    let sessions = SESSIONS.lock();
    let session = sessions.current.as_ref()?;
    session.maintenance.record_clocks();
    session.recorded()
}

fn idle() -> InitReply {
    let sequence = IDLE_CONTEXTS.fetch_add(1, Ordering::Relaxed) + 1;
    InitReply { context: ContextId::new(ProcessTag::new(1), sequence), mask: 0 }
}

fn begin_session(sessions: &mut MutexGuard<'_, Sessions>, comm: &CommInit<'_>, is_before_init: bool) {
    let has_ended = Sessions::wait_for_end(sessions);
    if sessions.current.is_some() || sessions.off {
        return;
    }
    if !has_ended {
        logger::warn("a communicator is not recorded, because the recording before it has not ended yet");
        return;
    }
    let config = Config::from_environment();
    if !sessions.has_logged_remarks {
        sessions.has_logged_remarks = true;
        for remark in &config.remarks {
            logger::warn(remark);
        }
    }
    if !config.enabled {
        sessions.off = true;
        return;
    }
    process::watch_forks(in_forked_child);
    process::at_exit(at_exit);
    substrate::at_program_end(end_of_measured_program);
    in_process::silence();
    memory::forget_failure();
    close::account_for_late();
    match begin::session(config, comm, is_before_init) {
        Ok(session) => sessions.current = Some(session),
        Err(reason) => {
            sessions.off = true;
            let what = if close::has_recorded() { "no further communicator" } else { "nothing" };
            logger::warn(&format!("{what} is recorded: {reason}"));
        }
    }
}

fn in_forked_child() {
    record::disable();
    gpu::disable();
    scorep::disable();
}

/// The process exits. If NCCL has not finalized its communicators, this writes what was recorded.
extern "C" fn at_exit() {
    static HAS_RUN: AtomicBool = AtomicBool::new(false);
    if HAS_RUN.swap(true, Ordering::Relaxed) {
        return;
    }
    not_cancelled(|| {
        let _caught = in_process::catch(scorep::at_exit);
        end_of_program();
    });
}

/// Score-P reports the end of the program while it still accepts events. The exit handler then has nothing left to do.
fn end_of_measured_program() {
    scorep::at_end_of_measurement();
    end_of_program();
}

fn end_of_program() {
    let ended = in_process::catch(|| {
        if process::is_forked() {
            return;
        }
        logger::forget();
        record::leave();
        // Another thread may be closing a session now, or hang in it, so the wait is bounded.
        let deadline = Instant::now() + PATIENCE;
        let Some(mut sessions) = SESSIONS.try_lock_until(deadline) else {
            return;
        };
        sessions.off = true;
        if !Sessions::wait_for_others(&mut sessions, deadline) {
            logger::warn(
                "the process exits while one of its threads still writes: `nccl-otf2 finalize` makes the archive",
            );
        }
        let ended = sessions.take();
        drop(sessions);
        if let Some((session, closing)) = ended {
            close::close(session, closing, Moment::Exit);
        } else {
            close::at_exit();
        }
        let late = close::account_for_late();
        if late > 0 && Config::from_environment().verbosity == Verbosity::Verbose {
            logger::warn(&format!(
                "{late} callbacks or communicators came after the recording had ended: `nccl-otf2 finalize` puts their number into the archive"
            ));
        }
    });
    if let Err(panic) = ended {
        logger::warn(&format!(
            "internal error at exit: {panic}; the journal is kept, `nccl-otf2 finalize` makes the archive"
        ));
    }
}
