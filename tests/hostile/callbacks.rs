//! Callbacks as no NCCL should make them, and as some do: the program that makes them notices nothing, and what made
//! sense is in the archive.

use whole_plugin::kinds::NEWEST;
use whole_plugin::scratch::Scratch;

use crate::drive::archive_of;

/// Callbacks as some release makes them, and the archive's counts.
struct Case {
    what: &'static str,
    table: u32,
    script: &'static str,
    counts: &'static [(&'static str, u64)],
}

const CASES: &[Case] = &[
    Case {
        what: "stops that come twice, states after the stop, handles that are not ours; from 2.28 on NCCL stops the \
               handle of a finished call again with each call once the mask leaves out such events",
        table: NEWEST,
        script: "
            init c ranks=1 rank=0
            start g GroupApi
            start a CollApi parent=g func=AllReduce
            stop a
            start k KernelCh parent=g
            stop k
            state k KernelChStop args=NULL
            stop g
            mask 0
            repeat 3 {
                stop a
            }
            stop 0x1234567812345678
            state 0x1234567812345678 ProxyOpInProgress
            finalize 0x7f0012340000
            finalize c",
        counts: &[
            ("STOPS_REPEATED", 3),
            ("STOPS_WITHOUT_START", 1),
            ("STATES_WITHOUT_START", 1),
            ("COLLAPI::WRITTEN", 1),
            ("KERNELCH::WRITTEN", 1),
        ],
    },
    Case {
        what: "callbacks after finalize: kernel channels are polled by a thread that outlives it in 2.28.9",
        table: NEWEST,
        script: "
            init c ranks=1 rank=0
            start g GroupApi
            start open CollApi parent=g func=AllReduce
            start k KernelCh parent=open channel=0
            stop g
            finalize c
            state k KernelChStop gpu_ns=5
            stop k
            stop open
            state open GroupEndApiStart
            start late KernelCh ctx=c parent=open
            expect-handle NULL
            state late KernelChStop
            stop late
            finalize c
            finalize c",
        counts: &[
            ("GROUPAPI::WRITTEN", 1),
            ("COLLAPI::UNFINISHED", 1),
            ("KERNELCH::UNFINISHED", 1),
            ("KERNELCH::SEEN", 1),
        ],
    },
    Case {
        what: "two communicators with one id: from 2.31 on NCCL forgets by the context what belongs to one that ends",
        table: NEWEST,
        script: "
            init a id=7 ranks=1 rank=0
            init b id=7 ranks=1 rank=0
            start x Coll ctx=a func=AllReduce count=1
            stop x
            finalize a
            start y Coll ctx=b func=AllReduce count=1
            stop y
            finalize b",
        counts: &[("COLL::WRITTEN", 2)],
    },
    Case {
        what: "up to 2.27 NCCL starts no child of an event whose handle is NULL, so none ever is",
        table: 3,
        script: "
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
            finalize c",
        counts: &[("COLL::SEEN", 8), ("PROXYOP::SEEN", 8)],
    },
    Case {
        what: "up to 2.26 a step that receives is never stopped: its slot is used anew, or the operation ends",
        table: 3,
        script: "
            init c
            start x Coll func=AllReduce count=1
            start p ProxyOp parent=x channel=0 peer=1 steps=20 is_send=0
            repeat 20 {
                start s ProxyStep parent=p step=%i
                state s ProxyStepRecvWait
            }
            stop p
            stop x
            finalize c",
        counts: &[("PROXYSTEP::SEEN", 20), ("PROXYSTEP::WRITTEN", 20)],
    },
    Case {
        what: "channels beyond what NCCL has: RCCL has up to 128, and the descriptor's field takes 256",
        table: 5,
        script: "
            init c ranks=1 rank=0
            start x Coll func=AllReduce count=1
            repeat 4 {
                start k KernelCh parent=x channel=%i
                stop k
            }
            start k KernelCh parent=x channel=127
            stop k
            start l KernelCh parent=x channel=255
            stop l
            start p ProxyOp parent=x channel=127 peer=1 steps=1 is_send=1
            stop p
            stop x
            finalize c",
        counts: &[("KERNELCH::WRITTEN", 6), ("PROXYOP::WRITTEN", 1), ("UNKNOWN::SEEN", 0)],
    },
    Case {
        what: "times of a GPU that wrote none, or overran its ring: an end before the beginning",
        table: 5,
        script: "
            init c ranks=1 rank=0
            start x Coll func=AllReduce count=1
            start a KernelCh parent=x channel=0 gpu_ns=1000
            state a KernelChStop gpu_ns=5000
            stop a
            start b KernelCh parent=x channel=1 gpu_ns=2000
            state b KernelChStop gpu_ns=1500
            stop b
            start d KernelCh parent=x channel=2 gpu_ns=0
            state d KernelChStop gpu_ns=3000
            stop d
            start e KernelCh parent=x channel=3 gpu_ns=4000
            state e KernelChStop gpu_ns=0
            stop e
            stop x
            finalize c",
        counts: &[("KERNELCH::WRITTEN", 4), ("GPU_TIMES_SUSPICIOUS", 3)],
    },
    Case {
        what: "kinds and states that no release has; below 2.28 there is no GroupApi either, and its number means nothing",
        table: 2,
        script: "
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
            finalize c",
        counts: &[("UNKNOWN::SEEN", 5), ("STATES_UNKNOWN", 2), ("STOPS_WITHOUT_START", 0)],
    },
    Case {
        what: "a collective beside a send that never ends: records of what overlaps are on the communicator's location",
        table: 4,
        script: "
            init c id=1 ranks=1 rank=0
            start x Coll func=AllReduce count=1 datatype=ncclFloat32
            start s P2p func=Send count=1 datatype=ncclFloat32
            start y Coll func=AllReduce count=1 datatype=ncclFloat32
            stop y
            finalize c",
        counts: &[("COLL::WRITTEN", 2), ("P2P::UNFINISHED", 1)],
    },
];

#[test]
fn what_releases_do_is_counted() {
    for case in CASES {
        let scratch = Scratch::new();
        let archive = archive_of(&scratch, case.table, &format!("{}\n", case.script));
        for (name, count) in case.counts {
            assert_eq!(archive.count(name), *count, "{name}: {}", case.what);
        }
    }
}

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
    for table in 1..=NEWEST {
        let scratch = Scratch::new();
        let archive = archive_of(&scratch, table, script);
        assert_eq!(archive.count("GROUP::WRITTEN"), 1, "table {table}");
        // The one with a descriptor and nowhere to put its handle is none.
        assert_eq!(archive.count("COLL::SEEN"), 1, "table {table}");
        assert_eq!(archive.count("STOPS_WITHOUT_START"), 0, "table {table}");
    }
}

/// 2.28 to 2.31 leave the rank of API events 0; all releases leave the rank of groups and kernel channels 0.
#[test]
fn a_rank_is_always_zero() {
    let scratch = Scratch::new();
    let archive = archive_of(
        &scratch,
        5,
        "
        init c ranks=4 rank=3
        start g GroupApi rank=0
        start a CollApi parent=g rank=0 func=AllReduce count=1
        start x Coll parent=a rank=3 func=AllReduce count=1 datatype=ncclFloat32
        start k KernelCh parent=x rank=0 channel=0
        stop k
        stop x
        stop a
        stop g
        finalize c
        ",
    );
    assert_eq!(archive.count("COLLAPI::WRITTEN"), 1);
    // Of rank 0 it knows only that there is one.
    let definitions = archive.definitions();
    assert!(definitions.contains(" rank 3\""), "{definitions}");
    assert!(!definitions.contains(" rank 0\""), "{definitions}");
}
