//! Callbacks as no NCCL should make them, and as some do: the program that makes them notices nothing, and what made
//! sense is in the archive.

use whole_plugin::kinds::KINDS;
use whole_plugin::scratch::Scratch;

use crate::drive::{archive_of, archive_under};

#[test]
fn null_in_every_pointer_of_every_version() {
    let script = "
        init c ranks=2 rank=0
        expect-context non-NULL
        init d context=NULL mask=NULL logger=NULL name=NULL
        init e mask=NULL
        expect-context other c
        init f logger=NULL context=NULL
        start g Group
        expect-handle non-NULL
        start a Coll descriptor=NULL
        expect-handle NULL
        start b Coll handle=NULL
        start h Coll descriptor=NULL handle=NULL ctx=NULL
        start n Coll ctx=NULL parent=NULL func=NULL datatype=NULL algorithm=NULL protocol=NULL
        start p ProxyOp parent=NULL
        start s ProxyStep parent=NULL
        state s ProxyStepSendWait args=NULL
        start k ProxyCtrl parent=NULL
        state k ProxyCtrlAppendEnd args=NULL
        stop NULL
        state NULL ProxyStepSendWait args=NULL
        state NULL ProxyStepSendWait
        stop k
        stop s
        stop p
        stop n
        stop g
        finalize NULL
        finalize e
        finalize c
    ";
    for table in 1..=7 {
        let scratch = Scratch::new();
        let archive = archive_of(&scratch, table, script);
        assert_eq!(archive.count("GROUP::WRITTEN"), 1, "table {table}");
        // The one with a descriptor and nowhere to put its handle is none.
        assert_eq!(archive.count("COLL::SEEN"), 1, "table {table}");
    }
}

#[test]
fn every_kind_with_null_arguments_for_every_state() {
    let mut script = "init c ranks=1 rank=0\nmask 0xffff\n".to_owned();
    for kind in KINDS {
        script.push_str(&format!("start e {kind}\n"));
        for state in 0..=33 {
            script.push_str(&format!("state e {state} args=NULL\nstate e {state} args=zero\n"));
        }
        script.push_str("stop e\n");
    }
    script.push_str("finalize c\n");
    let scratch = Scratch::new();
    let archive = archive_of(&scratch, 7, &script);
    let (phase, others) = KINDS.split_last().expect("kinds");
    for kind in others {
        let seen = archive.count(&format!("{}::SEEN", kind.to_uppercase()));
        assert_eq!(seen, 1, "{kind}");
    }
    // Without a libnccl that says it is 2.31 or later, version 7 may be a fork's: its last kind is not read.
    assert_eq!(archive.count("UNKNOWN::SEEN"), 1, "{phase}");
}

#[test]
fn unknown_kinds_and_states_are_counted() {
    let script = "
        init c ranks=1 rank=0
        start g GroupApi
        start u 0x10000
        start v 0x8000000000000000
        start w 3
        start z 0
        state g 77
        state g 4294967295 args=NULL
        state u 9
        stop z
        stop w
        stop v
        stop u
        stop g
        finalize c
    ";
    for table in [2, 5, 7] {
        let scratch = Scratch::new();
        let archive = archive_of(&scratch, table, script);
        let unknown = archive.count("UNKNOWN::SEEN");
        // Below 2.28 there is no GroupApi either, and its number means nothing.
        assert_eq!(unknown, if table == 2 { 5 } else { 4 }, "table {table}");
        assert_eq!(archive.count("STATES_UNKNOWN"), 2, "table {table}");
    }
}

#[test]
fn stops_that_come_twice_and_handles_that_are_not_ours() {
    let script = "
        init c ranks=1 rank=0
        start g GroupApi
        start k KernelCh parent=g
        stop k
        stop k
        state k KernelChStop args=NULL
        stop g
        stop g
        stop 0x1234567812345678
        state 0x1234567812345678 ProxyOpInProgress
        start x ProxyOp ctx=0x7f0012340000 parent=0x55aa00001000 pid=4242 steps=1 is_send=1
        expect-handle non-NULL
        stop x
        finalize 0x7f0012340000
        finalize c
    ";
    let scratch = Scratch::new();
    let archive = archive_of(&scratch, 7, script);
    assert_eq!(archive.count("STOPS_REPEATED"), 2);
    assert_eq!(archive.count("STOPS_WITHOUT_START"), 1);
    assert_eq!(archive.count("STATES_WITHOUT_START"), 1);
    assert_eq!(archive.count("PROXYOP::WRITTEN"), 1);
    assert_eq!(archive.count("FOREIGN"), 1);
}

#[test]
fn callbacks_after_finalize() {
    let script = "
        init c ranks=1 rank=0
        start g GroupApi
        start open CollApi parent=g func=AllReduce
        stop g
        finalize c
        stop open
        state open GroupEndApiStart
        start late KernelCh ctx=c parent=open
        expect-handle NULL
        state late KernelChStop
        stop late
        finalize c
        finalize c
    ";
    let scratch = Scratch::new();
    let archive = archive_of(&scratch, 7, script);
    assert_eq!(archive.count("GROUPAPI::WRITTEN"), 1);
    assert_eq!(archive.count("COLLAPI::UNFINISHED"), 1);
    assert_eq!(archive.count("KERNELCH::SEEN"), 0);
}

/// Forks of NCCL before 2.31 export version 6's descriptors as version 7; behind their end lies what is on the stack.
#[test]
fn what_version_7_adds_is_read_from_2_31_on_only() {
    let script = "
        init c ranks=1 rank=0
        start a CollApi func=AllReduce count=1 datatype=ncclFloat32 user_tag=4711
        start x Coll parent=a func=AllReduce count=1 datatype=ncclFloat32 kernel_variant=AGxLL_R is_symmetric=1
        start k KernelCh parent=x channel=0
        start p KernelPhase parent=k channel=0 phase=1 phase_name=compute
        stop p
        stop k
        stop x
        stop a
        finalize c
    ";
    let scratch = Scratch::new();
    let archive = archive_under(Some(23_203), &scratch, 7, script);
    assert_eq!(archive.properties()["NCCL::VERSION"], "2.32.3");
    assert_eq!(archive.count("KERNELPHASE::SEEN"), 1);
    assert_eq!(archive.count("UNKNOWN::SEEN"), 0);

    // A fork: instead of the variant's name there is no pointer that anybody could follow.
    let fork = script.replace("kernel_variant=AGxLL_R", "@112=0xa5a5a5a5a5a5a5a5");
    let scratch = Scratch::new();
    let archive = archive_under(Some(22_809), &scratch, 7, &fork);
    assert_eq!(archive.properties()["NCCL::VERSION"], "2.28.9");
    assert_eq!(archive.count("KERNELPHASE::SEEN"), 0);
    assert_eq!(archive.count("UNKNOWN::SEEN"), 1);
    assert_eq!(archive.count("COLL::WRITTEN"), 1);
}

/// A send and two collectives of one communicator, of which two never end: all records are on the communicator's
/// own row, those of what overlaps too, and nobody says that the send is a collective.
#[test]
fn a_collective_beside_a_send_that_never_ends() {
    let script = "
        init c id=1 ranks=1 rank=0
        start x Coll func=AllReduce count=1 datatype=ncclFloat32
        start s P2p func=Send count=1 datatype=ncclFloat32
        start y Coll func=AllReduce count=1 datatype=ncclFloat32
        stop y
        finalize c
    ";
    for table in 4..=7 {
        let scratch = Scratch::new();
        let archive = archive_of(&scratch, table, script);
        assert_eq!(archive.count("COLL::WRITTEN"), 2, "table {table}");
        assert_eq!(archive.count("P2P::UNFINISHED"), 1, "table {table}");
    }
}
