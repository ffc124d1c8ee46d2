//! Records of several slots in chronological order.

use journal::reader::Journal;
use nccl_events::{Body, Name, event};

use super::{read, start, writer};

#[test]
fn records_of_all_slots_come_in_the_order_of_time() {
    let directory = tempfile::tempdir().unwrap();
    let writer = writer(directory.path(), 1 << 30);
    let mut slots: Vec<_> = (0..3).map(|_| writer.register("a thread").unwrap()).collect();
    let texts = [c"one", c"two", c"three"];
    for number in 0..60_000_u64 {
        // One slot is silent for long periods, while others use up several segments.
        let slot = if number % 1000 == 0 { 2 } else { usize::from(number % 7 == 0) };
        let func = Name::from_cstr(texts[usize::try_from(number % 3).unwrap()]);
        let call = event::CollApi { func, count: number, ..event::CollApi::default() };
        let event = slots[slot].start(&start(Body::CollApi(call)));
        slots[usize::from(number % 5 == 0)].stop(event.get());
        writer.keep();
    }
    let (mut records, outcome) = read(directory.path());
    records.sort_by_key(|record| record.ticks);
    assert!(records.len() > 120_000, "{}", records.len());
    let journal = Journal::open(directory.path()).unwrap();
    assert!(journal.segments().in_order(outcome.symbols).eq(records));
}
