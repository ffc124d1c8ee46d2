//! Communicators: contexts that are not ours, events after the end, masks and loggers.

use std::path::Path;

use whole_plugin::built;
use whole_plugin::process::run;
use whole_plugin::scratch::Scratch;

use crate::drive::Pitfall;

/// 2.23.4 hands the proxy's thread a context that belongs to another process, if another's proxy does the sending.
#[test]
fn a_context_is_that_of_another_process() {
    let pitfall = Pitfall::new(
        "follow-context",
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
    let ours = pitfall.ours();
    assert_eq!(ours.count("PROXYOP::WRITTEN"), 1);
    assert_eq!(ours.count("PROXYSTEP::WRITTEN"), 1);
    assert_eq!(pitfall.control().count("foreign"), 2);
    pitfall.naive_with_fault().dies_by(libc::SIGSEGV);
}

/// With PXN the parent of a proxy operation is an event of the process that asked for it.
#[test]
fn a_parent_is_that_of_another_process() {
    let pitfall = Pitfall::new(
        "follow-parent",
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
    let ours = pitfall.ours();
    assert_eq!(ours.count("PROXYOP::WRITTEN"), 1);
    assert_eq!(ours.count("FOREIGN"), 2);
    assert_eq!(pitfall.control().count("foreign"), 2);
    pitfall.naive_with_fault().dies_by(libc::SIGSEGV);
}

/// Kernel channels are polled by a thread that outlives the communicator's finalize in 2.28.9.
#[test]
fn events_come_after_finalize() {
    let pitfall = Pitfall::new(
        "free-on-finalize",
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
    let ours = pitfall.ours();
    assert_eq!(ours.count("COLL::WRITTEN"), 1);
    assert_eq!(ours.count("KERNELCH::UNFINISHED"), 1);
    let control = pitfall.control();
    assert_eq!(control.count("0x40"), 1);
    assert_eq!(control.count("late"), 1);
    pitfall.naive_with_fault().dies_by(libc::SIGSEGV);
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
    let without_a_folder = |plugin: &Path, fault: &str| {
        let scratch = Scratch::new();
        let mut command = scratch.script_with(plugin, script);
        command.args(["--table", "7"]).env("NAIVE", fault);
        run(command.env("NCCL_OTF2_DIR", "/proc/no/folder"))
    };
    let _ours = without_a_folder(&built::plugin(), "").with_code(0);
    let _control = without_a_folder(&built::naive_plugin(), "").with_code(0);
    let failed = without_a_folder(&built::naive_plugin(), "fail-init").with_code(1);
    assert!(failed.to_string().contains("returned 2"), "{failed}");
}

/// There is one mask for the process, and each init writes it, several at one time in a group.
#[test]
fn the_mask_does_not_depend_on_the_communicator() {
    let pitfall = Pitfall::new(
        "mask-per-init",
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
    assert_eq!(pitfall.ours().count("COLL::WRITTEN"), 1);
    assert_eq!(pitfall.control().count("0x2"), 1);
    let naive = pitfall.naive_with_fault();
    naive.has_to_answer_for("the mask is 0x0, not 0xff");
}

/// From 2.31 on NCCL forgets by its context what belongs to a communicator that ends.
#[test]
fn each_communicator_has_a_context_of_its_own() {
    let pitfall = Pitfall::new(
        "one-context",
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
    assert_eq!(pitfall.ours().count("COLL::WRITTEN"), 2);
    assert_eq!(pitfall.control().count("0x2"), 2);
    let naive = pitfall.naive_with_fault();
    assert_eq!((naive.count("0x2"), naive.count("late")), (1, 1));
}

/// NCCL's logger lives as long as libnccl; what is left of the job may be without it.
#[test]
fn nothing_is_logged_when_no_communicator_is_left() {
    let pitfall = Pitfall::new(
        "log-late",
        7,
        "
        init c ranks=1 rank=0
        start g GroupApi
        finalize c
        stop g
        stop g
        ",
    );
    assert_eq!(pitfall.ours().count("GROUPAPI::UNFINISHED"), 1);
    assert_eq!(pitfall.control().count("0x100"), 1);
    let naive = pitfall.naive_with_fault();
    naive.has_to_answer_for("2 lines to NCCL's logger without a communicator");
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
    let pitfall = Pitfall::new("keep-name", 7, &script);
    let definitions = pitfall.ours().definitions();
    assert!(definitions.contains(name), "{definitions}");
    assert_eq!(pitfall.control().said("name").as_deref(), Some(name));
    let naive = pitfall.naive_with_fault();
    assert_ne!(naive.said("name").as_deref(), Some(name));
}
