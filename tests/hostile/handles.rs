//! Handles of events: stopped twice, never stopped, not ours, NULL.

use whole_plugin::scratch::Scratch;

use crate::drive::archive_of;

/// From 2.28 on NCCL never forgets the handle of a finished API event, and stops it again with each call once the mask
/// no longer asks for such events.
#[test]
fn a_handle_that_was_stopped_is_stopped_again() {
    let scratch = Scratch::new();
    let ours = archive_of(
        &scratch,
        7,
        "
        init c ranks=1 rank=0
        start g GroupApi
        start a CollApi parent=g func=AllReduce
        stop a
        stop g
        mask 0
        repeat 3 {
            stop a
        }
        finalize c
        ",
    );
    assert_eq!(ours.count("COLLAPI::WRITTEN"), 1);
    assert_eq!(ours.count("STOPS_REPEATED"), 3);
}

/// The proxy's progress thread of 2.28.9 says how a kernel channel ended after it has stopped it.
#[test]
fn a_state_comes_after_the_stop() {
    let scratch = Scratch::new();
    let ours = archive_of(
        &scratch,
        5,
        "
        init c ranks=1 rank=0
        start x Coll func=AllReduce count=1 datatype=ncclFloat32
        start k KernelCh parent=x channel=0 gpu_ns=1000
        stop k
        state k KernelChStop gpu_ns=3000
        stop x
        finalize c
        ",
    );
    assert_eq!(ours.count("KERNELCH::WRITTEN"), 1);
}

/// 2.23 to 2.25 stop events of tasks that they never started; updates of a network's plugin come for NULL too.
#[test]
fn null_is_stopped_and_gets_states() {
    let scratch = Scratch::new();
    let ours = archive_of(
        &scratch,
        2,
        "
        init c
        start g Group
        stop NULL
        state NULL ProxyStepSendWait
        state NULL ProxyStepSendWait args=NULL
        stop g
        finalize c
        ",
    );
    assert_eq!(ours.count("GROUP::WRITTEN"), 1);
    assert_eq!(ours.count("STOPS_WITHOUT_START"), 0);
}

/// NCCL does not initialise the handle of some events, and stops what it finds there.
#[test]
fn a_handle_is_written_whatever_is_started() {
    let scratch = Scratch::new();
    let ours = archive_of(
        &scratch,
        7,
        "
        init c ranks=1 rank=0
        start g GroupApi
        start u 0x10000
        stop u
        stop g
        finalize c
        ",
    );
    assert_eq!(ours.count("UNKNOWN::SEEN"), 1);
    assert_eq!(ours.count("STOPS_WITHOUT_START"), 0);
}

/// Up to 2.27 NCCL starts no child of an event whose handle is NULL: what a plugin does not want to keep takes its
/// children along.
#[test]
fn a_parent_is_never_null_for_its_children_to_be_lost() {
    let scratch = Scratch::new();
    let ours = archive_of(
        &scratch,
        3,
        "
        init c
        repeat 8 {
            start x%i Coll func=AllReduce count=1 sequence=%i
            if x%i {
                start p ProxyOp parent=x%i channel=0 peer=1 steps=1 is_send=1
                stop p
            }
        }
        repeat 8 {
            stop x%i
        }
        finalize c
        ",
    );
    assert_eq!(ours.count("COLL::SEEN"), 8);
    assert_eq!(ours.count("PROXYOP::SEEN"), 8);
}

/// Up to 2.26 a step that receives is never stopped: its slot is used anew, or the operation ends.
#[test]
fn a_step_is_never_stopped() {
    let scratch = Scratch::new();
    let ours = archive_of(
        &scratch,
        3,
        "
        init c
        start x Coll func=AllReduce count=1
        start p ProxyOp parent=x channel=0 peer=1 steps=20 is_send=0
        repeat 20 {
            start s ProxyStep parent=p step=%i
            state s ProxyStepRecvWait
        }
        stop p
        stop x
        finalize c
        ",
    );
    assert_eq!(ours.count("PROXYSTEP::SEEN"), 20);
    assert_eq!(ours.count("PROXYSTEP::WRITTEN"), 20);
}

/// Within one process there is no network, so no proxy operation: what frees groups by these frees none.
#[test]
fn groups_end_without_any_work_of_the_network() {
    let scratch = Scratch::new();
    let ours = archive_of(
        &scratch,
        2,
        "
        init c
        repeat 40 {
            start g Group
            start x Coll parent=g func=AllReduce count=1 sequence=%i
            stop x
            stop g
        }
        finalize c
        ",
    );
    assert_eq!(ours.count("GROUP::WRITTEN"), 40);
    assert_eq!(ours.count("COLL::WRITTEN"), 40);
}
