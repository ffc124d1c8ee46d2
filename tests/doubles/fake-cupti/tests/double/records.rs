//! Which records a launch makes, and when they come.

use crate::decode::{By, Kernel, Record, id_of, kernels, records};
use crate::rig::{Cupti, DONE, GIVEN, call, scenario, thread};
use std::ffi::{c_char, c_void};
use std::time::{SystemTime, UNIX_EPOCH};

#[test]
fn an_id_comes_before_its_call_and_only_the_top_of_a_stack() {
    scenario(
        "records::an_id_comes_before_its_call_and_only_the_top_of_a_stack",
        &[],
        || {
            let cupti = Cupti::open();
            cupti.begin_v1();
            for (kind, id) in [(5, 1), (5, 2), (3, 7)] {
                assert_eq!(cupti.push(By::V1, kind, id), 0);
            }
            let correlation = cupti.launch(652, "k", 0, (1_000, 2_000));
            cupti.drain();
            cupti.flush(1);
            let (found, _) = records(&cupti, By::V1);
            assert_eq!(found.len(), 4, "{found:?}");
            assert_eq!(
                found[0],
                Record::External {
                    kind: 3,
                    id: 7,
                    correlation
                }
            );
            assert_eq!(
                found[1],
                Record::External {
                    kind: 5,
                    id: 2,
                    correlation
                }
            );
            let Record::Api {
                kind: 4,
                cbid: 652,
                correlation: of_call,
                thread: of_thread,
                ..
            } = found[2]
            else {
                panic!("{found:?}");
            };
            assert_eq!((of_call, i64::from(of_thread)), (correlation, thread()));
            let kernel = Kernel {
                start: 1_000,
                end: 2_000,
                device: 0,
                context: 1,
                stream: 13,
                correlation,
                name: "k".to_owned(),
                graph: 0,
                node: 0,
            };
            assert_eq!(found[3], Record::Kernel(kernel));
            assert_eq!(cupti.pop(By::V1, 5), (0, 2));
            assert_eq!(cupti.pop(By::V1, 5), (0, 1));
            assert_eq!(cupti.pop(By::V1, 5).0, 18, "the stack is empty");
            assert_eq!(cupti.push(By::V1, 0, 1), 1);
            assert_eq!(cupti.push(By::V1, 6, 1), 1);
        },
    );
}

#[test]
fn a_function_that_is_not_enabled_brings_no_id() {
    scenario(
        "records::a_function_that_is_not_enabled_brings_no_id",
        &[],
        || {
            let cupti = Cupti::open();
            cupti.begin_v1();
            cupti.push(By::V1, 5, 1);
            // cuLaunchCooperativeKernel
            cupti.launch(477, "k", 0, (1, 2));
            cupti.drain();
            cupti.flush(1);
            let (found, _) = records(&cupti, By::V1);
            assert_eq!(found.len(), 1, "{found:?}");
            assert!(matches!(found[0], Record::Kernel(_)));
            // With the whole kind it does.
            cupti.enable(4);
            cupti.launch(477, "k", 0, (1, 2));
            cupti.drain();
            cupti.flush(1);
            assert_eq!(records(&cupti, By::V1).0.len(), 3);
        },
    );
}

#[test]
fn ids_belong_to_the_thread_that_pushed_them() {
    scenario(
        "records::ids_belong_to_the_thread_that_pushed_them",
        &[],
        || {
            let cupti = Cupti::open();
            cupti.begin_v1();
            cupti.push(By::V1, 5, 1);
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    cupti.launch(652, "without", 0, (1, 2));
                    assert_eq!(cupti.push(By::V1, 5, 2), 0);
                });
            });
            cupti.launch(652, "with", 0, (1, 2));
            cupti.drain();
            cupti.flush(1);
            let (found, _) = records(&cupti, By::V1);
            let ids: Vec<_> = kernels(&found)
                .iter()
                .map(|kernel| (kernel.name.clone(), id_of(&found, kernel)))
                .collect();
            assert_eq!(ids.len(), 2);
            assert!(ids.contains(&("without".to_owned(), None)), "{ids:?}");
            assert!(ids.contains(&("with".to_owned(), Some(1))), "{ids:?}");
        },
    );
}

#[test]
fn ids_are_written_only_where_their_kind_is_enabled() {
    let name = "records::ids_are_written_only_where_their_kind_is_enabled";
    scenario(name, &[], || {
        let cupti = Cupti::open();
        cupti.begin_v1();
        let code = call!(cupti, "cuptiActivityDisable", (u32) -> i32, 39);
        assert_eq!((code, cupti.push(By::V1, 5, 1)), (0, 0));
        cupti.launch(652, "k", 0, (1, 2));
        cupti.drain();
        cupti.flush(1);
        let (found, _) = records(&cupti, By::V1);
        assert_eq!(found.len(), 2, "{found:?}");
        assert_eq!(id_of(&found, kernels(&found)[0]), None);
    });
}

#[test]
fn buffers_are_asked_for_in_the_launch_and_given_back_elsewhere() {
    let name = "records::buffers_are_asked_for_in_the_launch_and_given_back_elsewhere";
    for (level, buffers) in [("28", 1), ("130001", 2)] {
        scenario(name, &[("FAKECUPTI_API", level)], || {
            let cupti = Cupti::open();
            cupti.begin_v1();
            cupti.launch(652, "k", 0, (1, 2));
            let other = std::thread::scope(|scope| {
                let other = scope.spawn(|| {
                    cupti.launch(652, "k", 0, (1, 2));
                    thread()
                });
                other.join().unwrap()
            });
            cupti.drain();
            cupti.flush(0);
            let given = GIVEN.lock();
            assert_eq!(given.len(), buffers);
            assert_eq!(given[0].1, thread());
            if buffers == 2 {
                assert_eq!(given[1].1, other);
            }
            let done = DONE.lock();
            assert_eq!(done.len(), buffers);
            assert!(
                done.iter()
                    .all(|done| done.thread != thread() && done.thread != other)
            );
        });
    }
}

#[test]
fn the_attribute_asks_for_buffers_per_thread() {
    scenario(
        "records::the_attribute_asks_for_buffers_per_thread",
        &[("FAKECUPTI_API", "22")],
        || {
            let cupti = Cupti::open();
            let (mut len, mut on) = (1_usize, 1_u8);
            let code = call!(cupti, "cuptiActivitySetAttribute", (u32, *mut usize, *mut u8) -> i32,
                         9, &raw mut len, &raw mut on);
            assert_eq!(code, 0);
            cupti.begin_v1();
            cupti.launch(652, "k", 0, (1, 2));
            std::thread::scope(|scope| {
                scope.spawn(|| cupti.launch(652, "k", 0, (1, 2)));
            });
            assert_eq!(GIVEN.lock().len(), 2);
        },
    );
}

#[test]
fn a_stream_does_one_kernel_after_the_other() {
    let variables = [("FAKECUPTI_KERNEL_NS", "5000")];
    scenario(
        "records::a_stream_does_one_kernel_after_the_other",
        &variables,
        || {
            let cupti = Cupti::open();
            cupti.begin_v1();
            for _ in 0..10 {
                cupti.launch(652, "k", 0, (0, 0));
            }
            cupti.drain();
            cupti.flush(0);
            let (found, _) = records(&cupti, By::V1);
            let kernels = kernels(&found);
            assert_eq!(kernels.len(), 10);
            for pair in kernels.windows(2) {
                assert!(pair[1].start >= pair[0].end, "{pair:?}");
            }
            let now = SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .unwrap()
                .as_nanos();
            let age = now - u128::from(kernels[0].start);
            assert!(age < 10_000_000_000, "{age} ns ago");
        },
    );
}

#[test]
fn a_captured_launch_has_no_kernel_and_a_replay_has_its_nodes() {
    scenario(
        "records::a_captured_launch_has_no_kernel_and_a_replay_has_its_nodes",
        &[],
        || {
            let cupti = Cupti::open();
            cupti.begin_v1();
            cupti.launch(652, "ncclDevKernel_x", 41, (0, 0));
            let names = [c"ncclDevKernel_x".as_ptr(), c"other".as_ptr()];
            let nodes = [41_u64, 42];
            let correlation = call!(cupti, "fake_cupti_graph_launch",
            (u32, u32, u32, u32, u32, *const *const c_char, *const u64) -> u32,
            0, 1, 13, 3, 2, names.as_ptr(), nodes.as_ptr());
            cupti.drain();
            cupti.flush(1);
            let (found, _) = records(&cupti, By::V1);
            let kernels = kernels(&found);
            assert_eq!(kernels.len(), 2);
            for (kernel, node) in kernels.iter().zip(nodes) {
                assert_eq!(
                    (kernel.correlation, kernel.graph, kernel.node),
                    (correlation, 3, node)
                );
            }
        },
    );
}

#[test]
fn a_copy_has_its_record() {
    scenario("records::a_copy_has_its_record", &[], || {
        let cupti = Cupti::open();
        cupti.begin_v1();
        cupti.enable(1);
        let code = call!(cupti, "cuptiActivityEnableRuntimeApi", (u32, u8) -> i32, 41, 1);
        assert_eq!(code, 0);
        cupti.push(By::V1, 5, 8);
        let correlation = call!(cupti, "fake_cupti_memcpy", (u32, u32, u32, u32, u32, u64, u64, u64) -> u32,
                                41, 0, 1, 13, 8, 4096, 10, 20);
        cupti.drain();
        cupti.flush(1);
        let (found, _) = records(&cupti, By::V1);
        assert_eq!(
            found[0],
            Record::External {
                kind: 5,
                id: 8,
                correlation
            }
        );
        let copy = Record::Copy {
            kind: 8,
            bytes: 4096,
            start: 10,
            end: 20,
            stream: 13,
            correlation,
        };
        assert_eq!(found[2], copy);
    });
}

#[repr(C)]
struct Work {
    ids: [u32; 4],
    name: *const c_char,
    graphs: [u32; 2],
    nodes: [u64; 2],
    copy: [u32; 2],
    bytes: u64,
    start_ns: u64,
    end_ns: u64,
}

#[test]
fn what_runs_is_kept_back_and_a_forced_flush_takes_it_without_an_end() {
    let name = "records::what_runs_is_kept_back_and_a_forced_flush_takes_it_without_an_end";
    scenario(name, &[], || {
        let cupti = Cupti::open();
        cupti.begin_v1();
        cupti.push(By::V1, 5, 1);
        let correlation = call!(cupti, "fake_cupti_api", (u32, u32) -> u32, 4, 652);
        let work = Work {
            ids: [correlation, 0, 1, 13],
            name: c"k".as_ptr(),
            graphs: [0; 2],
            nodes: [0; 2],
            copy: [0; 2],
            bytes: 0,
            start_ns: 1_000,
            end_ns: 0,
        };
        let at = (&raw const work).cast::<c_void>();
        let ticket = call!(cupti, "fake_cupti_work_begin", (*const c_void) -> u64, at);
        cupti.flush(0);
        assert_eq!(records(&cupti, By::V1).0, [], "its buffer is not complete");
        cupti.flush(1);
        let (found, _) = records(&cupti, By::V1);
        let found = kernels(&found)[0].clone();
        assert_eq!(
            (found.start, found.end, found.correlation),
            (1_000, 0, correlation)
        );
        // Its end comes too late.
        call!(cupti, "fake_cupti_work_end", (u64, u64), ticket, 2_000);
        cupti.drain();
        cupti.flush(1);
        assert_eq!(records(&cupti, By::V1).0, []);
        // One that ends in time has both.
        let ticket = call!(cupti, "fake_cupti_work_begin", (*const c_void) -> u64, at);
        call!(cupti, "fake_cupti_work_end", (u64, u64), ticket, 2_000);
        cupti.flush(0);
        let (found, _) = records(&cupti, By::V1);
        assert_eq!(
            (kernels(&found)[0].start, kernels(&found)[0].end),
            (1_000, 2_000)
        );
    });
}

#[test]
fn a_full_buffer_is_replaced() {
    scenario("records::a_full_buffer_is_replaced", &[], || {
        *crate::rig::BUFFER_LEN.lock() = 1024;
        let cupti = Cupti::open();
        cupti.begin_v1();
        cupti.storm(By::V1, 2, 100);
        assert!(DONE.lock().len() > 20);
        crate::decode::check_storm(&records(&cupti, By::V1).0, 2, 100);
    });
}

#[test]
fn a_stream_is_known_by_the_number_that_it_was_told() {
    scenario(
        "records::a_stream_is_known_by_the_number_that_it_was_told",
        &[],
        || {
            let cupti = Cupti::open();
            call!(cupti, "fake_cupti_stream", (usize, u32), 0x5000, 13);
            let mut id = 0_u32;
            let ask = |stream: usize, id: *mut u32| call!(cupti, "cuptiGetStreamIdEx", (usize, usize, u8, *mut u32) -> i32, 0, stream, 0, id);
            assert_eq!(ask(0x5000, &raw mut id), 0);
            assert_eq!(id, 13);
            assert_eq!(ask(0x6000, &raw mut id), 20);
        },
    );
}
