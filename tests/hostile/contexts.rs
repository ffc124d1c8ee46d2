//! Communicators: contexts that are not ours, events after the end, masks and loggers.

use whole_plugin::built;
use whole_plugin::process::run;
use whole_plugin::scratch::Scratch;

use crate::drive::archive_of;

/// 2.23.4 hands the proxy's thread a context that belongs to another process, if another's proxy does the sending.
#[test]
fn a_context_is_that_of_another_process() {
    let scratch = Scratch::new();
    let ours = archive_of(
        &scratch,
        1,
        "
        init c
        start p ProxyOp ctx=0x7f0012340000 channel=0 peer=1 steps=1 is_send=1
        start s ProxyStep ctx=0x7f0012340000 parent=p step=0
        stop s
        stop p
        finalize 0x7f0012340000
        finalize c
        ",
    );
    assert_eq!(ours.count("PROXYOP::WRITTEN"), 1);
    assert_eq!(ours.count("PROXYSTEP::WRITTEN"), 1);
}

/// With PXN the parent of a proxy operation is an event of the process that asked for it.
#[test]
fn a_parent_is_that_of_another_process() {
    let scratch = Scratch::new();
    let ours = archive_of(
        &scratch,
        6,
        "
        init c ranks=1 rank=0
        start p ProxyOp ctx=0x7f0012340000 parent=0x55aa00001000 pid=4242 channel=0 peer=1 steps=1 is_send=1
        start s ProxyStep ctx=0x7f0012340000 parent=p step=0
        stop s
        stop p
        finalize c
        ",
    );
    assert_eq!(ours.count("PROXYOP::WRITTEN"), 1);
    assert_eq!(ours.count("FOREIGN"), 2);
}

/// Kernel channels are polled by a thread that outlives the communicator's finalize in 2.28.9.
#[test]
fn events_come_after_finalize() {
    let scratch = Scratch::new();
    let ours = archive_of(
        &scratch,
        5,
        "
        init c ranks=1 rank=0
        start x Coll func=AllReduce count=1
        start k KernelCh parent=x channel=0
        stop x
        finalize c
        state k KernelChStop gpu_ns=5
        stop k
        start late KernelCh ctx=c parent=x channel=1
        stop late
        finalize c
        ",
    );
    assert_eq!(ours.count("COLL::WRITTEN"), 1);
    assert_eq!(ours.count("KERNELCH::UNFINISHED"), 1);
}

/// An error of init makes NCCL up to 2.27 crash at the end of the job, and later ones close the library under
/// communicators that live.
#[test]
fn init_succeeds_though_nothing_can_be_written() {
    let script = "
        init c ranks=1 rank=0
        expect-context non-NULL
        start g GroupApi
        stop g
        finalize c
    ";
    let scratch = Scratch::new();
    let mut command = scratch.script_with(&built::plugin(), script);
    command.args(["--table", "7"]);
    let _ended = run(command.env("NCCL_OTF2_DIR", "/proc/no/folder")).with_code(0);
}

/// There is one mask for the process, and each init writes it, several at one time in a group.
#[test]
fn the_mask_does_not_depend_on_the_communicator() {
    let scratch = Scratch::new();
    let ours = archive_of(
        &scratch,
        4,
        "
        init c ranks=8 rank=0
        expect-mask 0xff
        parallel 4 {
            init d%t id=%t ranks=1 rank=0
            expect-mask 0xff
        }
        start x Coll ctx=c func=AllReduce count=1
        stop x
        finalize d0
        finalize d1
        finalize d2
        finalize d3
        finalize c
        ",
    );
    assert_eq!(ours.count("COLL::WRITTEN"), 1);
}

/// From 2.31 on NCCL forgets by its context what belongs to a communicator that ends.
#[test]
fn each_communicator_has_a_context_of_its_own() {
    let scratch = Scratch::new();
    let ours = archive_of(
        &scratch,
        7,
        "
        init a id=7 ranks=1 rank=0
        init b id=7 ranks=1 rank=0
        start x Coll ctx=a func=AllReduce count=1
        stop x
        finalize a
        start y Coll ctx=b func=AllReduce count=1
        stop y
        finalize b
        ",
    );
    assert_eq!(ours.count("COLL::WRITTEN"), 2);
}

/// NCCL's logger lives as long as libnccl; what is left of the job may be without it.
#[test]
fn nothing_is_logged_when_no_communicator_is_left() {
    let scratch = Scratch::new();
    let ours = archive_of(
        &scratch,
        7,
        "
        init c ranks=1 rank=0
        start g GroupApi
        finalize c
        stop g
        stop g
        ",
    );
    assert_eq!(ours.count("GROUPAPI::UNFINISHED"), 1);
}

/// The name is the communicator's configuration's, and lives as long as the application likes.
#[test]
fn the_name_of_a_communicator_is_gone_when_init_returns() {
    let name = "a-name-that-takes-more-than-sixteen-bytes";
    let script = format!(
        "
        init c ranks=1 rank=0 name={name}
        start g GroupApi
        stop g
        finalize c
        "
    );
    let scratch = Scratch::new();
    let ours = archive_of(&scratch, 7, &script);
    let definitions = ours.definitions();
    assert!(definitions.contains(name), "{definitions}");
}
