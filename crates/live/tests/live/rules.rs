//! The tests write a process's records, so the truth is known: the launch of an operation, the kernel of stamps, and
//! the sends and receives of a collective.

use std::path::Path;
use std::time::{Duration, Instant};

use journal::clock::{ClockPair, monotonic_ns, ticks};
use journal::testing::{self, NO_PROCESS, Process};
use journal::writer::SlotWriter;
use live::{Live, Operation, Snapshot};
use nccl_events::gpu::{ClockSample, GpuClock, GpuRecord, LaunchTime};
use nccl_events::ids::{ContextId, EventId};
use nccl_events::{Body, Name, StateArgs, event};
use tempfile::{TempDir, tempdir};
use whole_plugin::pages;

use crate::rig::{self, counters, options, to_the_end};

fn begin(out: &Path, ranks: u32, pid: u32) -> Process {
    rig::begin(&out.join("parts/rank0"), (0, ranks), pid)
}

/// A thread of the tested rank.
struct Caller<'a> {
    context: ContextId,
    slot: &'a mut SlotWriter,
}

impl Caller<'_> {
    fn start(&mut self, parent: EventId, body: Body<Name<'_>>) -> EventId {
        self.slot.start(&testing::start(self.context, parent.get(), 0, body))
    }

    fn stop(&mut self, events: &[EventId]) {
        events.iter().for_each(|event| self.slot.stop(event.get()));
    }

    fn group(&mut self) -> EventId {
        self.start(EventId::NONE, Body::GroupApi(event::GroupApi { graph_captured: false, depth: 1 }))
    }

    fn all_reduce(&mut self, group: EventId) -> EventId {
        let func = Name::from_cstr(c"AllReduce");
        let call = self.start(group, Body::CollApi(event::CollApi { func, stream: 1, ..event::CollApi::default() }));
        self.stop(&[call]);
        call
    }

    fn launch(&mut self, group: EventId) -> EventId {
        self.start(group, Body::KernelLaunch(event::KernelLaunch { stream: 1 }))
    }

    fn plan(&mut self) -> EventId {
        self.start(EventId::NONE, Body::Group(event::Group {}))
    }

    /// A group with a call, its launch and its operation of `count` floats.
    fn launched(&mut self, sequence: u64, count: u64) -> EventId {
        let group = self.group();
        let call = self.all_reduce(group);
        let launch = self.launch(group);
        let plan = self.plan();
        let operation = self.start(call, all_reduce(sequence, plan, count));
        self.stop(&[launch, operation, plan, group]);
        operation
    }
}

fn all_reduce(sequence: u64, plan: EventId, count: u64) -> Body<Name<'static>> {
    let Body::Coll(fields) = testing::all_reduce(sequence, plan.get()) else { panic!("it is a collective") };
    Body::Coll(event::Coll { count, ..fields })
}

fn main_caller(process: &mut Process) -> Caller<'_> {
    Caller { context: process.context, slot: &mut process.main }
}

fn proxy_caller(process: &mut Process) -> Caller<'_> {
    Caller { context: process.context, slot: &mut process.proxy }
}

/// A rank sends to all ranks and receives from all, as `ncclAlltoAll` does.
fn all_to_all(process: &mut Process, ranks: i32) {
    let mut main = main_caller(process);
    let (group, mut calls) = (main.group(), Vec::new());
    for peer in 0..ranks {
        for func in [c"Send", c"Recv"].map(Name::from_cstr) {
            let datatype = Name::from_cstr(c"ncclInt8");
            let call = event::P2pApi { func, count: 100, datatype, stream: 1, ..event::P2pApi::default() };
            let call = main.start(group, Body::P2pApi(call));
            main.stop(&[call]);
            calls.push((call, event::P2p { func, datatype, count: 100, peer, channels: 1, ..event::P2p::default() }));
        }
    }
    let launch = main.launch(group);
    let plan = main.plan();
    let with_plan = |of: event::P2p<_>| Body::P2p(event::P2p { parent_group: plan.get(), ..of });
    let operations: Vec<EventId> = calls.into_iter().map(|(call, of)| main.start(call, with_plan(of))).collect();
    main.stop(&operations);
    main.stop(&[launch, plan, group]);
}

/// Ends the process, and follows the job to its end.
fn summed_up(process: Process, directory: &TempDir) -> Snapshot {
    let _part = process.end();
    to_the_end(&mut Live::new(directory.path(), options()))
}

fn count_of(snapshot: &Snapshot, function: &str) -> u64 {
    let function_operations = snapshot.operations.iter().filter(|operation| operation.function == function);
    function_operations.map(|operation| operation.count).sum()
}

/// 64 ranks make 128 sends and receives each, all recorded within the one-second wait.
#[test]
fn all_collectives_of_sends_and_receives_are_counted() {
    let directory = tempdir().expect("a directory");
    let mut process = begin(directory.path(), 64, NO_PROCESS);
    for _ in 0..60 {
        all_to_all(&mut process, 64);
    }
    let snapshot = summed_up(process, &directory);
    let counts = ["ncclAlltoAll", "ncclSend", "ncclRecv"].map(|function| count_of(&snapshot, function));
    assert_eq!(counts, [60, 60 * 64, 60 * 64]);
}

/// A copied part, or an id that communicators share.
#[test]
fn a_rank_that_two_processes_have_is_in_two_communicators() {
    let directory = tempdir().expect("a directory");
    for part in ["parts/a", "parts/b"] {
        let mut process = rig::begin(&directory.path().join(part), (0, 2), NO_PROCESS);
        process.collective(0);
        let _part = process.end();
    }
    let snapshot = to_the_end(&mut Live::new(directory.path(), options()));
    let members: Vec<(u32, u32)> =
        snapshot.communicators.iter().map(|communicator| (communicator.ranks, communicator.here)).collect();
    assert_eq!(members, [(2, 1); 2], "{snapshot:#?}");
    assert_eq!(snapshot.ranks.iter().map(|rank| rank.communicator).collect::<Vec<_>>(), [0, 1]);
}

/// The stop of the operation was lost; CUDA events report that its kernel ended.
#[test]
fn what_the_gpu_saw_end_is_counted() {
    let directory = tempdir().expect("a directory");
    let mut process = begin(directory.path(), 2, NO_PROCESS);
    let mut main = main_caller(&mut process);
    let group = main.group();
    let call = main.all_reduce(group);
    let (launch, plan) = (main.launch(group), main.plan());
    let _operation = main.start(call, all_reduce(0, plan, 1000));
    main.stop(&[launch, plan, group]);
    let mut gpu = |id: u64, record: GpuRecord<Name<'_>>| assert!(process.maintenance.gpu(ticks(), id, &record));
    let now = || {
        GpuRecord::Clock(ClockSample {
            clock: GpuClock::Events,
            ordinal: 0,
            gpu_ns: monotonic_ns(),
            uncertainty_ticks: 0,
        })
    };
    gpu(0, now());
    let start_ns = monotonic_ns();
    std::thread::sleep(Duration::from_millis(5));
    let time = LaunchTime { ordinal: 0, uncertainty_ns: 0, stream: 1, start_ns, end_ns: monotonic_ns() };
    gpu(launch.get(), GpuRecord::LaunchTime(time));
    gpu(0, now());
    let snapshot = summed_up(process, &directory);
    let timings: Vec<_> = snapshot.operations.iter().map(|operation| (operation.count, operation.timing)).collect();
    assert_eq!(timings, [(1, "event")]);
}

/// The first of two kernels is reported so late that its slot has the stamps of the second.
#[test]
fn stamps_are_those_of_the_last_kernel_that_reports_them() {
    let directory = tempdir().expect("a directory");
    let mut process = begin(directory.path(), 2, NO_PROCESS);
    let mut stamped = |sequence, count| {
        let operation = main_caller(&mut process).launched(sequence, count);
        let gpu_start_ns = monotonic_ns();
        std::thread::sleep(Duration::from_millis(5));
        (operation, gpu_start_ns, monotonic_ns())
    };
    let [first, second] = [(0, 1000), (1, 16_000)].map(|(sequence, count)| stamped(sequence, count));
    let (_, gpu_ns, stop_gpu_ns) = second;
    for (operation, ..) in [first, second] {
        let mut proxy = proxy_caller(&mut process);
        let kernel = proxy.start(operation, Body::KernelCh(event::KernelCh { channel: 0, gpu_ns }));
        proxy.slot.state(&testing::state(
            kernel,
            nccl_events::state::KERNEL_CH_STOP,
            StateArgs::GpuTime { gpu_ns: stop_gpu_ns },
        ));
        proxy.stop(&[kernel]);
    }
    let snapshot = summed_up(process, &directory);
    let timing = |operation: &Operation| (operation.bytes, operation.timing);
    let mut timings: Vec<_> = snapshot.operations.iter().map(timing).collect();
    timings.sort_unstable();
    assert_eq!(timings, [(4000, "kernelch-host"), (64_000, "kernelch")]);
}

/// One thread launches, another reports the operation, and a reader in between does not see the launch yet.
#[test]
fn an_operation_has_its_launch_whenever_it_is_read() {
    let directory = tempdir().expect("a directory");
    let pid = std::process::id();
    let mut process = begin(directory.path(), 2, pid);
    // Two readings of the process's clocks, which all followers use.
    std::thread::sleep(Duration::from_millis(20));
    process.maintenance.clock_pair(&ClockPair::read());
    let mut early = Live::new(directory.path(), options());
    let mut main = main_caller(&mut process);
    let group = main.group();
    let call = main.all_reduce(group);
    while early.poll().records > 0 || early.snapshot().processes.iter().all(|process| process.records == 0) {}
    // The older records, on the other thread, are read first.
    let mut proxy = proxy_caller(&mut process);
    let other = proxy.plan();
    proxy.stop(&[other]);
    let mut main = main_caller(&mut process);
    let launch = main.launch(group);
    let before_ns = monotonic_ns();
    main.stop(&[launch]);
    let after_ns = monotonic_ns();
    std::thread::sleep(Duration::from_millis(40));
    let mut proxy = proxy_caller(&mut process);
    let plan = proxy.plan();
    let operation = proxy.start(call, all_reduce(0, plan, 1000));
    proxy.stop(&[operation, plan]);
    let pid = i32::try_from(pid).expect("a process id");
    let transfer = event::ProxyOp { pid, channel: 0, peer: 1, steps: 1, chunk_bytes: 512, is_send: true };
    let transfer = proxy.start(operation, Body::ProxyOp(transfer));
    proxy.slot.state(&testing::state(transfer, nccl_events::state::PROXY_OP_IN_PROGRESS, StateArgs::None));
    let least_ns = monotonic_ns() - after_ns;
    proxy.stop(&[transfer]);
    let most_ns = monotonic_ns() - before_ns;
    main_caller(&mut process).stop(&[group]);
    early.poll();
    let [early, late] = [early, Live::new(directory.path(), options())].map(|mut live| {
        let began = Instant::now();
        loop {
            live.poll();
            let snapshot = live.snapshot();
            if !snapshot.operations.is_empty() {
                return snapshot;
            }
            assert!(began.elapsed() < Duration::from_secs(60), "{snapshot:#?}");
            std::thread::sleep(Duration::from_millis(5));
        }
    });
    let _part = process.end();
    let [operation] = early.operations.as_slice() else { panic!("{:?}", early.operations) };
    assert_eq!((operation.count, operation.timing), (1, "proxy"));
    // The processor's counter is accurate to some hundred ns.
    let took_ns = operation.duration.sum_ns;
    assert!((least_ns - 2000..most_ns + 2000).contains(&took_ns), "{took_ns} not in {least_ns}..{most_ns}");
    assert_eq!(counters(&early), counters(&late));
}

/// NCCL reuses the handle of a step, and stops the step only then.
#[test]
fn a_step_ends_with_its_own_stop() {
    let directory = tempdir().expect("a directory");
    let mut process = begin(directory.path(), 2, NO_PROCESS);
    let operation = main_caller(&mut process).launched(0, 1000);
    let pid = i32::try_from(NO_PROCESS).expect("it fits");
    let transfer = event::ProxyOp { pid, channel: 0, peer: 1, steps: 9, chunk_bytes: 512, is_send: true };
    let mut proxy = proxy_caller(&mut process);
    let transfer = proxy.start(operation, Body::ProxyOp(transfer));
    let mut step = |step| {
        let step = proxy.start(transfer, Body::ProxyStep(event::ProxyStep { step }));
        let sent = StateArgs::ProxyStep { bytes: 512 };
        proxy.slot.state(&testing::state(step, nccl_events::state::PROXY_STEP_SEND_WAIT, sent));
        step
    };
    let [first, ninth] = [0, 8].map(&mut step);
    proxy.stop(&[ninth]);
    std::thread::sleep(Duration::from_millis(20));
    proxy.stop(&[first, transfer]);
    let snapshot = summed_up(process, &directory);
    let network_ns: u64 = snapshot.proxies.iter().map(|proxy| proxy.network_ns).sum();
    assert!((20_000_000..10_000_000_000).contains(&network_ns), "{network_ns}");
    assert_eq!(snapshot.pairs.iter().map(|pair| pair.steps).sum::<u64>(), 2);
}

#[test]
fn the_page_has_the_differences() {
    let list: String =
        live::DIFFERENCES.iter().map(|(subject, text)| line_up(&format!("* **{subject}**: {text}"))).collect();
    pages::compare("MONITORING.md", "differences", &list);
}

/// An item of a list in lines of at most 120 characters.
fn line_up(item: &str) -> String {
    let mut lines: Vec<String> = vec![String::new()];
    for word in item.split(' ') {
        let last = lines.last_mut().expect("there is one");
        if last.len() + 1 + word.len() > 120 {
            lines.push(format!("  {word}"));
        } else {
            last.push_str(if last.is_empty() { "" } else { " " });
            last.push_str(word);
        }
    }
    lines.join("\n") + "\n"
}
