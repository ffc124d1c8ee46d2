//! Ranges of the program and of NCCL in the archive (`docs/MAPPING.md` §5).

mod record;
mod shown;

use std::path::Path;

use archive::{WriteOptions, write_part};
use journal::clock::ticks;
use journal::testing::{Process, ProcessIdentity};
use nccl_events::ids::{ContextId, ProcessTag};
use nccl_events::range::RangeCount;
use nccl_events::range::RangeField::{
    Bytes, Category, Color, CommId, Device, Float, Number, ParentCommId, Rank, Ranks, Reduction, Root, Signed,
    SplitColor, SplitKey, Unsigned,
};
use nccl_events::schema::{Counts, Lack, Statements};
use nccl_events::{CommInit, Name, Table};
use otf2::{Archive, CommRef};

use crate::job::{Job, KEEP, new_job, unified};
use crate::read::{print, text};
use record::{fields, name, pop, push, push_at, range};
use shown::{shown, text_of};

const COMM: u64 = 0xabcd_ef01_2345_6789;

fn one_rank(out: &Path) -> Process {
    Process::begin(out, ProcessIdentity { rank: 0, ranks: 2, in_environment: true })
}

fn comm_of_rank(rank: i32, ranks: i32) -> CommInit<'static> {
    let table = Table::from_number(6).expect("a table");
    CommInit { table, comm_id: 0x77, name: Name::NONE, nodes: 1, ranks, rank, nccl_version: 23_007 }
}

/// What the tool prints.
fn tool(arguments: &[&str], path: &Path) -> String {
    let mut tool = std::process::Command::new(whole_plugin::built::nccl_otf2());
    whole_plugin::process::run(tool.args(arguments).arg(path)).with_code(0).stdout
}

/// The archive of a process, read by all readers. It breaks no rule.
fn archive_of(job: &Job, process: Process) -> (Archive, Counts) {
    let part = process.leave();
    let counts = write_part(&part, &KEEP, &()).expect("written").counts;
    let archive = unified(job);
    print(job);
    let _remarks = tool(&["check"], job);
    (archive, counts)
}

#[test]
fn calls_are_in_the_ranges_around_them_and_shown_once() {
    let job = new_job();
    let mut process = one_rank(&job);
    let part = process.part.clone();
    let main = &mut process.main;
    let step = [(Number, 17), (Category, 3), (Color, 0xff00_ff00), (Unsigned, 5)];
    push(main, 0, range(c"", c"step #", &step));
    push(main, 1, range(c"lib", c"forward", &[(Signed, (-4_i64).cast_unsigned())]));
    push(main, 2, range(c"NCCL", c"ncclAllReduce", &[(CommId, COMM), (Bytes, 4000), (Reduction, 2)]));
    process.all_reduce(0);
    let main = &mut process.main;
    pop(main, 2, &[]);
    assert!(main.mark_range(ticks(), &range(c"lib", c"here", &[(Float, 2.5_f64.to_bits())])));
    pop(main, 1, &[]);
    // A call on one rank, of which NCCL reports nothing.
    push(main, 1, range(c"NCCL", c"ncclBroadcast", &[(CommId, COMM), (Bytes, 40), (Root, 1)]));
    pop(main, 1, &[]);
    push(main, 1, range(c"NCCL", c"ncclReduce", &[(CommId, 7), (Bytes, 8), (Root, 0), (Reduction, 9)]));
    pop(main, 1, &[]);
    pop(main, 0, &[]);
    // Without a call of its own, it is in what is open when it is enqueued.
    push(main, 0, range(c"", c"backward", &[]));
    process.collective(1);
    pop(&mut process.main, 0, &[]);
    process.collective(2);
    let (archive, counts) = archive_of(&job, process);
    let all = shown(&archive);
    assert_eq!(
        all["API"],
        [
            "ncclCommInitRank comm_id=12379813738877118345 nodes=1 rank=0 ranks=2",
            "step # nvtx.category=3 nvtx.color=4278255360 nvtx.number=17 nvtx.payload=5",
            "  forward nvtx.domain=lib nvtx.payload_signed=I64(-4)",
            "    ncclAllReduce bytes=4000 comm=world (2) nvtx.ranges=step # > forward op=max rank=0",
            "    here nvtx.domain=lib nvtx.payload_float=…",
            "  ncclBroadcast bytes=40 comm_id=12379813738877118345 nvtx.ranges=step # root=1",
            "  ncclReduce bytes=8 comm_id=7 nvtx.ranges=step # op=9 root=0",
            "backward",
        ]
    );
    assert_eq!(
        all["NCCL world (2) rank 0"],
        [
            "NCCL AllReduce bytes=4000 nvtx.ranges=step # > forward",
            "NCCL AllReduce bytes=4000 nvtx.ranges=backward",
            "NCCL AllReduce bytes=4000",
        ]
    );
    let counts = [counts.ranges_user, counts.ranges_marks, counts.ranges_nccl, counts.ranges_reported];
    assert_eq!(counts, [3, 1, 2, 1]);
    let told = tool(&["info"], &job);
    assert!(told.contains("3 ranges of the program, 1 mark, 2 calls that only NVTX shows"), "{told}");
    let archive_text = tool(&["print", "--kind", "Range"], &job);
    let entered = ["step #", "forward", "here", "backward"].map(|name| format!("enter {name}"));
    assert!(entered.iter().all(|line| archive_text.contains(line)), "{archive_text}");
    assert!(!archive_text.contains("ncclAllReduce bytes"), "{archive_text}");
    let journal_text = tool(&["print", "--kind", "Range"], &part);
    for line in [
        "range push level=0 name=step # number=17 category=3 color=4278255360 payload=5",
        "range push level=2 domain=NCCL name=ncclAllReduce",
        "range mark domain=lib name=here payload=2.5",
        "range pop level=0",
    ] {
        assert!(journal_text.contains(line), "{line}: {journal_text}");
    }
    let definitions = archive.definitions().expect("definitions");
    let mut regions: Vec<String> = definitions.regions.values().map(|region| text_of(&definitions, region)).collect();
    regions.retain(|region| region.starts_with("nvtx"));
    assert_eq!(regions, ["nvtx::::backward", "nvtx::lib::forward", "nvtx-mark::lib::here", "nvtx::::step #"]);
}

#[test]
fn a_name_with_the_separator_of_paths_is_one_level() {
    let job = new_job();
    let mut process = one_rank(&job);
    push(&mut process.main, 0, range(c"", c"load > copy", &[]));
    process.collective(0);
    pop(&mut process.main, 0, &[]);
    let (archive, _) = archive_of(&job, process);
    let all = shown(&archive);
    assert_eq!(all["API"][1..], ["load > copy"]);
    assert_eq!(all["NCCL world (2) rank 0"], ["NCCL AllReduce bytes=4000 nvtx.ranges=load / copy"]);
}

#[test]
fn a_group_is_shown_by_the_interface_and_the_group_inside_it_by_its_ranges() {
    let job = new_job();
    let mut process = one_rank(&job);
    let context = process.context;
    let main = &mut process.main;
    let group = nccl_events::event::GroupApi { graph_captured: false, depth: 2 };
    let start = journal::testing::start(context, 0, 0, nccl_events::Body::GroupApi(group));
    // The event begins with the first call of the group.
    for call in [c"ncclGroupStart", c"ncclGroupStart"] {
        push(main, 0, range(c"NCCL", call, &[]));
        pop(main, 0, &[]);
    }
    let group = main.start(&start);
    push(main, 0, range(c"NCCL", c"ncclGroupEnd", &[]));
    pop(main, 0, &[]);
    push(main, 0, range(c"NCCL", c"ncclGroupEnd", &[]));
    main.stop(group.get());
    pop(main, 0, &[]);
    // Without a call.
    for call in [c"ncclGroupStart", c"ncclGroupEnd"] {
        push(main, 0, range(c"NCCL", call, &[]));
        pop(main, 0, &[]);
    }
    let (archive, counts) = archive_of(&job, process);
    let expected = ["ncclGroupStart", "NCCL group", "  ncclGroupEnd", "ncclGroupStart", "ncclGroupEnd"];
    assert_eq!(shown(&archive)["API"][1..], expected);
    assert_eq!([counts.ranges_nccl, counts.ranges_reported], [4, 2]);
}

#[test]
fn ranges_that_overlap_or_lose_their_ends_are_shown_as_far_as_is_known() {
    let job = new_job();
    let mut process = one_rank(&job);
    let main = &mut process.main;
    // Two domains: the outer one is popped first.
    push(main, 0, range(c"", c"a", &[]));
    push(main, 1, range(c"lib", c"b", &[]));
    pop(main, 0, &[]);
    push(main, 2, range(c"NCCL", c"ncclBroadcast", &[]));
    pop(main, 2, &[]);
    pop(main, 1, &[]);
    // A pop that was lost ends where the next range of its level begins.
    push(main, 0, range(c"", c"lost", &[]));
    let at = push(main, 0, range(c"", c"c", &[]));
    // A segment of a flight recording repeats what is open.
    assert!(main.push_range(at, 0, true, &range(c"", c"c", &[])));
    let mut other = process.thread("data loader");
    push(&mut other, 0, range(c"", c"load", &[]));
    process.end_thread(other);
    let (archive, counts) = archive_of(&job, process);
    let definitions = archive.definitions().expect("definitions");
    let threads =
        definitions.locations.values().filter(|location| text(&definitions, location.name).starts_with("API thread"));
    assert_eq!(threads.count(), 2, "a thread that never calls NCCL is shown for its ranges");
    let mut lines = shown(&archive)["API"].clone();
    lines.retain(|line| !line.contains("ncclCommInitRank"));
    let [first, rest @ ..] = &lines[..] else { panic!("{lines:?}") };
    let (ranges, load): (&[String], &String) = if first.starts_with("load") {
        (rest, first)
    } else {
        lines.split_last().map(|(last, ranges)| (ranges, last)).expect("lines")
    };
    assert_eq!(load, "load; closed=1");
    assert_eq!(
        ranges,
        ["a", "  b nvtx.domain=lib", "ncclBroadcast nvtx.ranges=b", "lost; closed=1", "c; unfinished=1"]
    );
    assert_eq!((counts.clamped, counts.ranges_closed, counts.ranges_unfinished), (1, 2, 1));
}

/// The recording of a rank that is killed ends with the beginning of its innermost range.
#[test]
fn the_last_range_is_inside_of_those_that_are_open() {
    let job = new_job();
    let mut process = one_rank(&job);
    push(&mut process.main, 0, range(c"", c"a", &[]));
    // Behind what the process records when it ends, on a clock that is too coarse for both.
    let last = ticks() + 1_000_000_000;
    push_at(&mut process.main, last, 1, range(c"", c"b", &[]));
    push_at(&mut process.main, last, 2, range(c"", c"c", &[]));
    let (archive, counts) = archive_of(&job, process);
    let lines = &shown(&archive)["API"];
    let [.., outer, middle, inner] = &lines[..] else { panic!("{lines:?}") };
    let unfinished = ["a; unfinished=1", "  b; unfinished=1", "    c; unfinished=1"];
    assert_eq!([outer, middle, inner], unfinished);
    assert_eq!(counts.ranges_unfinished, 3);
}

#[test]
fn started_ranges_are_on_a_location_of_their_domain() {
    let job = new_job();
    let mut process = one_rank(&job);
    let mut other = process.thread("other");
    let named = |domain, text| range(domain, text, &[(Number, 1)]);
    assert!(process.main.start_range(ticks(), 1, false, &named(c"lib", c"epoch")));
    assert!(process.main.start_range(ticks(), 2, false, &named(c"lib", c"load")));
    assert!(process.main.start_range(ticks(), 3, false, &named(c"", c"epoch")));
    for id in [1, 2] {
        assert!(other.end_range(ticks(), id, &fields(&[(Unsigned, 9)])));
    }
    assert!(process.main.start_range(ticks(), 4, false, &named(c"lib", c"epoch")));
    assert!(process.main.end_range(ticks(), 4, &fields(&[])));
    drop(other);
    let (archive, counts) = archive_of(&job, process);
    let mut all = shown(&archive);
    all.retain(|location, _| location.starts_with("NVTX"));
    let lines = |lines: &[&str]| lines.iter().map(|&line| line.to_owned()).collect::<Vec<_>>();
    let expected = [
        ("NVTX", lines(&["epoch nvtx.number=1; unfinished=1"])),
        (
            "NVTX lib",
            lines(&[
                "epoch nvtx.domain=lib nvtx.number=1 nvtx.payload=9",
                // It began before the one before it ended.
                "load cut_ns=… nvtx.domain=lib nvtx.number=1 nvtx.payload=9",
                "epoch nvtx.domain=lib nvtx.number=1",
            ]),
        ),
    ];
    assert_eq!(all, expected.map(|(name, lines)| (name.to_owned(), lines)).into());
    assert_eq!((counts.ranges_user, counts.starts_cut), (4, 1));
}

#[test]
fn ranges_around_init_and_finalize_are_the_calls_and_name_the_parent() {
    let job = new_job();
    let began = ticks();
    let mut process = one_rank(&job);
    let main = &mut process.main;
    push_at(main, began, 0, range(c"NCCL", c"ncclCommInitRankConfig", &[]));
    pop(main, 0, &[(CommId, 0), (Ranks, 2), (Rank, 0), (Device, 1)]);
    let split = ContextId::new(ProcessTag::new(0x100), 2);
    push(main, 0, range(c"NCCL", c"ncclCommSplit", &[]));
    main.comm_init(split.get(), ticks(), 0, &comm_of_rank(0, 1));
    let (color, key) = ((-1_i64).cast_unsigned(), 4);
    // Size and rank are those in the parent.
    pop(main, 0, &[(CommId, 0x77), (ParentCommId, COMM), (Ranks, 2), (Rank, 1), (SplitColor, color), (SplitKey, key)]);
    push(main, 0, range(c"NCCL", c"ncclCommDestroy", &[]));
    main.comm_finalize(split.get(), ticks());
    pop(main, 0, &[]);
    // NCCL's threads begin the communicators of a group: such a call stays.
    let mut thread = process.thread("init");
    thread.comm_finalize(split.get(), ticks());
    // Recording ends inside the last call, which NCCL does on another thread, too.
    push(&mut process.main, 0, range(c"NCCL", c"ncclCommDestroy", &[(CommId, COMM), (Rank, 0)]));
    thread.comm_finalize(process.context.get(), ticks());
    drop(thread);
    let (archive, counts) = archive_of(&job, process);
    let mut lines = shown(&archive)["API"].clone();
    lines.sort();
    assert_eq!(
        lines,
        [
            "ncclCommDestroy comm_id=119 nodes=1 rank=0 ranks=1",
            "ncclCommDestroy comm_id=119 nodes=1 rank=0 ranks=1",
            "ncclCommDestroy comm_id=12379813738877118345 nodes=1 rank=0 ranks=2; closed=1",
            "ncclCommInitRankConfig comm_id=12379813738877118345 device=1 nodes=1 rank=0 ranks=2",
            "ncclCommSplit comm_id=119 nodes=1 parent_comm_id=12379813738877118345 rank=0 ranks=1 split_color=-1 split_key=4",
        ]
    );
    assert_eq!((counts.ranges_nccl, counts.ranges_unfinished), (4, 0));
    let definitions = archive.definitions().expect("definitions");
    let comms = definitions.comms.values().map(|comm| (text(&definitions, comm.name), comm.parent));
    let parents = [("world (2)", CommRef::UNDEFINED), ("world split 1 (1)", CommRef::new(0))];
    assert_eq!(comms.collect::<Vec<_>>(), parents);
}

/// Two ranks are in one process. NCCL begins their communicator on threads of its own, and ends it on the thread of the
/// last one. Calls have no ids, as up to 2.27; which rank it is, NCCL says since then.
#[test]
fn what_nccl_does_on_another_thread_for_a_call_is_not_shown_beside_the_call() {
    let rank_attributes = " comm_id=119 nodes=1 rank=0 ranks=2";
    let other_attributes = " comm_id=119 nodes=1 rank=1 ranks=2";
    for (ranks, destroyed) in [(Some([0, 1]), [rank_attributes, other_attributes]), (None, [" rank=0", " rank=1"])] {
        let job = new_job();
        let mut process = one_rank(&job);
        let (mut second, mut thread) = (process.thread("second"), process.thread("init"));
        let contexts = [2, 3].map(|number| ContextId::new(ProcessTag::new(0x100), number).get());
        let main = &mut process.main;
        push(main, 0, range(c"NCCL", c"ncclCommSplit", &[(Rank, 2)]));
        push(&mut second, 0, range(c"NCCL", c"ncclCommSplit", &[(Rank, 3)]));
        for (place, context) in contexts.into_iter().enumerate() {
            let comm = ranks.map_or_else(|| comm_of_rank(-1, 0), |ranks| comm_of_rank(ranks[place], 2));
            thread.comm_init(context, ticks(), 0, &comm);
        }
        pop(main, 0, &[]);
        pop(&mut second, 0, &[]);
        push(main, 0, range(c"NCCL", c"ncclCommDestroy", &[(Rank, 0)]));
        pop(main, 0, &[]);
        push(&mut second, 0, range(c"NCCL", c"ncclCommDestroy", &[(Rank, 1)]));
        contexts.into_iter().for_each(|context| second.comm_finalize(context, ticks()));
        pop(&mut second, 0, &[]);
        drop((second, thread));
        let (archive, _) = archive_of(&job, process);
        let mut lines = shown(&archive)["API"].clone();
        lines.retain(|line| !line.starts_with("ncclCommInitRank comm_id=12379813738877118345"));
        lines.sort();
        let [first, other] = destroyed.map(|attributes| format!("ncclCommDestroy{attributes}"));
        assert_eq!(lines, [first.as_str(), &other, "ncclCommSplit rank=2", "ncclCommSplit rank=3"]);
    }
}

#[test]
fn what_could_not_be_recorded_is_said() {
    let job = new_job();
    let mut process = one_rank(&job);
    let mut totals = [0; RangeCount::COUNT];
    for (count, total) in RangeCount::ALL.into_iter().zip([5, 6, 7, 8]) {
        totals[count as usize] = total;
    }
    assert!(process.main.range_counts(ticks(), totals));
    let (archive, _) = archive_of(&job, process);
    let statements = Statements::read(archive.properties());
    let counts = &statements.counts;
    let found = [counts.ranges_other_names, counts.ranges_too_deep, counts.ranges_unbalanced_pops, counts.ranges_lost];
    assert_eq!(found, [5, 6, 7, 8]);
    assert!(statements.missing_data().any(|lack| lack == Lack::Ranges(8)));
    assert!(!statements.has_gaps(), "all callbacks are there");
}

#[test]
fn a_recursion_has_a_text_for_some_of_its_paths() {
    let job = new_job();
    let mut process = one_rank(&job);
    let main = &mut process.main;
    let (mut level, mut calls) = (0, 0);
    let names = [c"a", c"b"];
    // All paths of twelve ranges with these two names: a tree of 8190 paths, each with a call.
    let mut path: Vec<usize> = Vec::new();
    loop {
        if path.len() < 12 {
            path.push(0);
        } else {
            while path.last() == Some(&1) {
                path.pop();
                level -= 1;
                pop(main, level, &[]);
            }
            let Some(last) = path.last_mut() else { break };
            *last = 1;
            level -= 1;
            pop(main, level, &[]);
        }
        push(main, level, range(c"", names[*path.last().expect("not empty")], &[]));
        level += 1;
        push(main, level, range(c"NCCL", c"ncclBroadcast", &[]));
        pop(main, level, &[]);
        calls += 1;
    }
    assert_eq!(calls, 8190);
    assert!(name(c"recursion").is_some());
    let (archive, _) = archive_of(&job, process);
    let lines = &shown(&archive)["API"];
    let paths: Vec<&str> = lines.iter().filter_map(|line| Some(line.split_once("nvtx.ranges=")?.1)).collect();
    let distinct: std::collections::BTreeSet<&str> = paths.iter().copied().collect();
    assert_eq!((paths.len(), distinct.len()), (8190, 4097));
    assert!(distinct.contains("(other ranges)"));
}

#[test]
fn only_what_was_still_open_is_written_of_an_earlier_time() {
    let job = new_job();
    let mut process = one_rank(&job);
    push(&mut process.main, 0, range(c"", c"a", &[]));
    pop(&mut process.main, 0, &[]);
    push(&mut process.main, 0, range(c"", c"b", &[]));
    let since_ticks = ticks();
    process.all_reduce(0);
    pop(&mut process.main, 0, &[]);
    let part = process.leave();
    write_part(&part, &WriteOptions { since_ticks, ..KEEP }, &()).expect("written");
    let archive = unified(&job);
    let all = &shown(&archive)["API"];
    let begin = all.iter().position(|line| line == "b").expect("it began before");
    assert_eq!(all[begin + 1], "  ncclAllReduce bytes=4000 comm=world (2) nvtx.ranges=b rank=0");
    assert!(!all.iter().any(|line| line == "a"), "{all:?}");
}
