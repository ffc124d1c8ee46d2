use super::*;

/// A pool for one test.
fn fresh(may_refuse: bool) -> Box<Pool> {
    let pool = Box::new(Pool::new());
    pool.open(may_refuse);
    pool
}

#[test]
fn a_buffer_goes_round_and_comes_back_clean() {
    let pool = fresh(true);
    let base = pool.give();
    assert_eq!(base.addr() % 4096, 0);
    assert_eq!(pool.outstanding(), 1);
    // SAFETY: this test owns the buffer, as CUPTI would.
    unsafe { base.write_bytes(0xff, BYTES) };
    pool.take_back(base, 240);
    assert_eq!(pool.outstanding(), 0);
    let full = pool.take_full().unwrap();
    assert_eq!((full.base(), full.bytes().len()), (base, 240));
    assert!(pool.take_full().is_none(), "one reader each");
    drop(full);
    assert!(pool.take_full().is_none());
    for _ in 0..READY_AT_FIRST {
        let base = pool.give();
        // SAFETY: as above.
        let bytes = unsafe { std::slice::from_raw_parts(base, BYTES) };
        assert!(bytes.iter().all(|byte| *byte == 0));
    }
}

#[test]
fn more_than_is_allowed_is_refused_only_where_it_may_be() {
    let pool = fresh(true);
    let given = (0..MOST + 3).filter(|_| !pool.give().is_null()).count();
    assert_eq!((given, pool.take_refused()), (MOST, 3));
    let pool = fresh(false);
    let given = (0..MOST + 3).filter(|_| !pool.give().is_null()).count();
    assert_eq!((given, pool.take_refused()), (MOST + 3, 0));
}

#[test]
fn a_buffer_that_comes_late_is_clean_for_the_next_session() {
    let pool = fresh(true);
    let base = pool.give();
    // SAFETY: this test owns the buffer.
    unsafe { base.write_bytes(0xff, BYTES) };
    pool.close();
    pool.take_back(base, 100);
    assert!(pool.take_full().is_none());
    assert_eq!(pool.outstanding(), 0);
    // SAFETY: nothing uses the buffer, and it stays mapped.
    assert_eq!(unsafe { base.read() }, 0);
}
