//! Unusual orders: the end of the measurement, calls that never end, more operations than there is room for.

use fake_scorep::{Threads, Variant};

use crate::job::{Job, ROW, all_reduces};

/// In a program with MPI, Score-P is gone when the plugin's exit handler runs, so the rest is forwarded before.
#[test]
fn the_rest_is_forwarded_at_the_end_of_the_measurement() {
    let script = all_reduces(20).replace("sleep 5ms\nfinalize c\n", "");
    for register_at in ["2", "-1"] {
        let job = Job::script(Variant::USUAL, &script).env("FAKE_SCOREP_REGISTER_AT", register_at).run();
        let row: Vec<_> = job.log().on(ROW).collect();
        assert_eq!(row.len(), 20, "{}", job.ended);
        assert_eq!(job.counts()["OPERATIONS"], 20);
        job.assert_whole();
    }
}

/// NCCL calls after the end of the measurement.
#[test]
fn after_the_measurement_nothing_is_forwarded() {
    for (end_at, threads) in [(1, Threads::None), (42, Threads::Pthread), (43, Threads::OpenMp)] {
        let variant = Variant { threads, ..Variant::USUAL };
        let job = Job::script(variant, &all_reduces(20)).env("FAKE_SCOREP_END_AT", &end_at.to_string()).run();
        let counts = job.counts();
        assert_eq!(counts["CALLS"], end_at);
        assert_eq!(counts["CALLS"] + counts["CALLS_OUTSIDE"], 82, "{counts:?}");
        let log = &job.logs[0];
        assert_eq!(
            log.intervals.iter().filter(|call| call.location != ROW).count() + log.left_open,
            usize::try_from(end_at).expect("small")
        );
        job.assert_whole();
    }
}

#[test]
fn a_users_pause_is_respected() {
    let job = Job::script(Variant::USUAL, &all_reduces(5)).env("FAKE_SCOREP_RECORDING", "0").run();
    assert_eq!(job.log().on("Master thread").count(), 0);
    assert_eq!(job.counts()["CALLS_NOT_RECORDED"], 22);
    job.assert_whole();
}

/// A group spans the user's code, where the user's regions end. So only its end is forwarded.
#[test]
fn a_group_is_shown_by_its_end() {
    let script = "init c id=1 ranks=1 rank=0
start g GroupApi ctx=c depth=2
state g GroupStartApiStop
start a P2pApi ctx=c parent=g func=Send count=2 datatype=ncclInt8
stop a
start b P2pApi ctx=c parent=g func=Recv count=2 datatype=ncclInt8
stop b
state g GroupEndApiStart
start k KernelLaunch ctx=c parent=g stream=0x7
stop k
stop g
finalize c
";
    let job = Job::script(Variant::USUAL, script).run();
    let calls: Vec<(&str, usize)> = job.log().intervals.iter().map(|call| (call.region.as_str(), call.depth)).collect();
    let expected = [
        ("ncclCommInitRank", 0),
        ("ncclSend", 0),
        ("ncclRecv", 0),
        ("ncclKernelLaunch", 1),
        ("ncclGroupEnd", 0),
        ("ncclCommDestroy", 0),
    ];
    assert_eq!(calls, expected);
}

/// An NCCL that fails reports no end; the next call must not be affected.
#[test]
fn calls_without_an_end_are_closed() {
    let script = "init c id=1 ranks=1 rank=0
repeat 3 {
start g%i GroupApi ctx=c depth=1
start a%i CollApi ctx=c parent=g%i func=AllGather count=2 datatype=ncclInt8
state g%i GroupEndApiStart
start k%i KernelLaunch ctx=c parent=g%i stream=0x7
stop g%i
stop a%i
stop g%i
}
start h GroupApi ctx=c depth=1
state h GroupEndApiStart
start k KernelLaunch ctx=c parent=h stream=0x7
start i GroupApi ctx=c depth=1
state i GroupEndApiStart
stop h
stop i
finalize c
";
    let job = Job::script(Variant::USUAL, script).run();
    let log = job.log();
    assert_eq!(log.on("Master thread").count(), 3 * 3 + 3 + 2);
    let counts = job.counts();
    assert_eq!((counts["CALLS"], counts["CALLS_CLOSED"]), (14, 3 * 2 + 2), "{counts:?}");
}

/// One location cannot show two communicators at once; sends and receives of one kernel are shown one after the other.
#[test]
fn operations_do_not_overlap() {
    let script = "init c id=1 ranks=1 rank=0
init d id=2 ranks=1 rank=0
start x Coll ctx=c func=AllReduce sequence=0 count=1 datatype=ncclInt8
start y Coll ctx=d func=AllReduce sequence=0 count=1 datatype=ncclInt8
start z P2p ctx=c func=Recv count=1 datatype=ncclInt8
stop x
stop y
stop z
start a ProxyOp ctx=c parent=x
start b ProxyOp ctx=d parent=y
start e ProxyOp ctx=c parent=z
sleep 1ms
stop a
sleep 1ms
stop b
sleep 1ms
stop e
finalize d
finalize c
";
    let job = Job::script(Variant::USUAL, script).run();
    let row: Vec<_> = job.log().on(ROW).collect();
    let names: Vec<&str> = row.iter().map(|operation| operation.region.as_str()).collect();
    assert_eq!(names, ["ncclAllReduce", "ncclRecv"]);
    assert_eq!(row[0].end, row[1].begin);
    assert!(row[1].attributes.contains_key("nccl.start_moved_ticks"), "{row:?}");
    assert_eq!(row[1].attributes["nccl.peer"], "0");
    let counts = job.counts();
    assert_eq!((counts["OPERATIONS"], counts["OPERATIONS_OVERLAPPING"], counts["OPERATIONS_MOVED"]), (2, 1, 1));
}

/// More operations than there is room for, by a thread that Score-P does not know, so that nothing is forwarded
/// meanwhile.
#[test]
fn operations_without_room_are_counted() {
    let script = "init c id=1 ranks=1 rank=0
thread foreign {
repeat 5000 {
start x%i Coll ctx=c func=AllReduce sequence=%i count=1 datatype=ncclInt8
stop x%i
}
}
join foreign
finalize c
";
    for threads in [Threads::None, Threads::OpenMp] {
        let job = Job::script(Variant { threads, ..Variant::USUAL }, script).run();
        let counts = job.counts();
        assert_eq!(counts["OPERATIONS_DROPPED"], 5000 - 4096, "{counts:?}");
        let rest = ["OPERATIONS", "OPERATIONS_OVERLAPPING"];
        let rest: u64 = rest.iter().filter_map(|name| counts.get(*name)).sum();
        assert_eq!(rest, 4096, "{counts:?}");
        assert_eq!(job.log().on(ROW).count() as u64, counts["OPERATIONS"]);
        job.assert_whole();
    }
}

/// Operations whose parts never stop, as with some transports, do not delay the others, and are marked.
#[test]
fn an_operation_that_never_ends_is_unfinished() {
    let script = "init c id=1 ranks=1 rank=0
start x Coll ctx=c func=AllReduce sequence=0 count=1 datatype=ncclInt8
stop x
start a ProxyOp ctx=c parent=x
finalize c
";
    let job = Job::script(Variant::USUAL, script).run();
    let row: Vec<_> = job.log().on(ROW).collect();
    assert_eq!(row.len(), 1);
    assert_eq!(row[0].attributes["nccl.unfinished"], "1");
    assert_eq!(job.counts()["OPERATIONS_UNFINISHED"], 1);
}

/// A forked child forwards nothing.
#[test]
fn a_forked_child_is_silent() {
    let script = "init c id=1 ranks=1 rank=0
fork {
start a CollApi ctx=c func=AllReduce count=1 datatype=ncclInt8
stop a
}
start b CollApi ctx=c func=AllReduce count=1 datatype=ncclInt8
stop b
finalize c
";
    let job = Job::script(Variant::USUAL, script).run();
    let calls: Vec<&str> = job.log().on("Master thread").map(|call| call.region.as_str()).collect();
    assert_eq!(calls, ["ncclCommInitRank", "ncclAllReduce", "ncclCommDestroy"]);
}

/// A process that destroys all its communicators and makes new ones.
#[test]
fn a_second_session_is_forwarded_too() {
    let script = all_reduces(10).repeat(2);
    let job = Job::script(Variant::USUAL, &script).run();
    assert_eq!(job.log().on(ROW).count(), 20, "{}", job.ended);
    assert_eq!(job.log().locations.iter().filter(|name| *name == ROW).count(), 1);
    assert_eq!(job.counts()["OPERATIONS"], 20);
}
