//! Reads recordings that the tests write: how far each operation got is known.

use std::path::Path;
use std::time::Duration;

use crate::job::{Job, Rank, Stage};
use crate::read::part::journals;
use journal::clock::{monotonic_ns, ticks};
use journal::testing::{NO_PROCESS, Process, ProcessIdentity, all_reduce, start, state};
use journal::writer::SlotWriter;
use nccl_events::event::{CollApi, Group, GroupApi, KernelCh, KernelLaunch, ProxyOp};
use nccl_events::gpu::{ClockSample, GpuClock, GpuRecord, LaunchTime};
use nccl_events::ids::{ContextId, EventId};
use nccl_events::{Body, Name, StateArgs};
use tempfile::tempdir;

fn begin(out: &Path, rank: u32) -> Process {
    Process::begin(out, ProcessIdentity { rank, ranks: 2, in_environment: true })
}

fn begin_event(slot: &mut SlotWriter, context: ContextId, parent: EventId, body: Body<Name<'_>>) -> EventId {
    slot.start(&start(context, parent.get(), 0, body))
}

/// A group with one call and its launch, all of which have returned: the call and the launch.
fn call(process: &mut Process, graph_captured: bool) -> [EventId; 2] {
    let (main, context) = (&mut process.main, process.context);
    let group = begin_event(main, context, EventId::NONE, Body::GroupApi(GroupApi { depth: 1, graph_captured }));
    let func = Name::from_cstr(c"AllReduce");
    let body = Body::CollApi(CollApi { func, stream: 1, graph_captured, ..CollApi::default() });
    let call = begin_event(main, context, group, body);
    let launch = begin_event(main, context, group, Body::KernelLaunch(KernelLaunch { stream: 1 }));
    [call, launch, group].into_iter().for_each(|event| main.stop(event.get()));
    [call, launch]
}

/// An operation that was enqueued.
fn operation(slot: &mut SlotWriter, context: ContextId, call: EventId) -> EventId {
    let plan = begin_event(slot, context, EventId::NONE, Body::Group(Group {}));
    let operation = begin_event(slot, context, call, all_reduce(0, plan.get()));
    [operation, plan].into_iter().for_each(|event| slot.stop(event.get()));
    operation
}

fn channel(process: &mut Process, operation: EventId) -> EventId {
    let body = Body::KernelCh(KernelCh { channel: 0, gpu_ns: monotonic_ns() });
    begin_event(&mut process.proxy, process.context, operation, body)
}

fn stop_channel(process: &mut Process, channel: EventId) {
    let stop = StateArgs::GpuTime { gpu_ns: monotonic_ns() };
    process.proxy.state(&state(channel, nccl_events::state::KERNEL_CH_STOP, stop));
    process.proxy.stop(channel.get());
}

fn read(out: &Path) -> Job {
    journals(out, &()).expect("a job")
}

fn rank(job: &Job, rank: u32) -> &Rank {
    job.comms.first().and_then(|comm| comm.ranks.get(&rank)).expect("the rank")
}

fn stages(job: &Job, of: u32) -> [Vec<Stage>; 2] {
    let rank = rank(job, of);
    [&rank.calls, &rank.replays].map(|tail| tail.list.iter().map(|call| call.progress.stage).collect())
}

/// A second operation of a call is its replay. It is recorded by a thread whose records are read first.
#[test]
fn the_first_operation_of_a_call_is_the_one_that_began_first() {
    let directory = tempdir().expect("a directory");
    let mut process = begin(directory.path(), 0);
    let [call, _] = call(&mut process, false);
    let first = operation(&mut process.proxy, process.context, call);
    let ran = channel(&mut process, first);
    stop_channel(&mut process, ran);
    let second = operation(&mut process.main, process.context, call);
    let _running = channel(&mut process, second);
    let _part = process.leave();
    assert_eq!(stages(&read(directory.path()), 0), [vec![Stage::Done], vec![Stage::Running]]);
}

/// NCCL reports the operation of a captured call at capture if it has nothing to report later, else at each replay.
#[test]
fn replays_are_those_reports_that_are_not_of_the_capture() {
    let directory = tempdir().expect("a directory");
    let mut process = begin(directory.path(), 0);
    let [call, _] = call(&mut process, true);
    let cuda = &mut process.thread("cuda00001400006");
    for _ in 0..2 {
        let _operation = operation(cuda, process.context, call);
    }
    let _part = process.leave();
    let [calls, replays] = stages(&read(directory.path()), 0);
    assert_eq!((calls.len(), replays.len()), (0, 2));
}

/// Without network and kernel channels only the GPU's time of the launch shows that the operation ran.
#[test]
fn what_the_gpu_timed_has_ended() {
    let directory = tempdir().expect("a directory");
    let mut process = begin(directory.path(), 0);
    let [timed, launch] = call(&mut process, false);
    let _timed = operation(&mut process.main, process.context, timed);
    let sample = |process: &mut Process| {
        let (clock, gpu_ns) = (GpuClock::Events, monotonic_ns());
        let sample = ClockSample { clock, ordinal: 0, gpu_ns, uncertainty_ticks: 0 };
        assert!(process.maintenance.gpu(ticks(), 0, &GpuRecord::Clock(sample)));
    };
    sample(&mut process);
    let start_ns = monotonic_ns();
    std::thread::sleep(Duration::from_millis(2));
    let time = LaunchTime { ordinal: 0, stream: 1, start_ns, end_ns: monotonic_ns(), uncertainty_ns: 0 };
    assert!(process.maintenance.gpu(ticks(), launch.get(), &GpuRecord::LaunchTime(time)));
    sample(&mut process);
    let [untimed, _] = call(&mut process, false);
    let _untimed = operation(&mut process.main, process.context, untimed);
    let _part = process.leave();
    assert_eq!(stages(&read(directory.path()), 0), [vec![Stage::Done, Stage::Launched], Vec::new()]);
}

/// PXN: the process of rank 1 transfers for operations of rank 0.
#[test]
fn transfers_that_another_process_does_count() {
    let directory = tempdir().expect("a directory");
    let [mut origin, mut worker] = [0, 1].map(|rank| begin(directory.path(), rank));
    let pid = i32::try_from(NO_PROCESS).expect("it fits");
    for is_over in [true, false] {
        let [call, _] = call(&mut origin, false);
        let operation = operation(&mut origin.main, origin.context, call);
        let op = ProxyOp { pid, channel: 0, peer: 1, steps: 1, chunk_bytes: 512, is_send: true };
        let transfer = begin_event(&mut worker.proxy, origin.context, operation, Body::ProxyOp(op));
        worker.proxy.state(&state(transfer, nccl_events::state::PROXY_OP_IN_PROGRESS, StateArgs::None));
        if is_over {
            worker.proxy.stop(transfer.get());
        }
    }
    let _parts = [origin.leave(), worker.leave()];
    assert_eq!(stages(&read(directory.path()), 0), [vec![Stage::Transferred, Stage::Running], Vec::new()]);
}
