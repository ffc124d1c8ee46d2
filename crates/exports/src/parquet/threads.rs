//! What a process's threads did: calls of NCCL, and the program's ranges around them.

use analysis::{RegionInfo, Slice};
use nccl_events::archive::{PATH_SEPARATOR, RegionClass};
use nccl_events::schema::definition::ThreadId;
use otf2::LocationRef;

use super::process::Process;
use super::rows;
use super::table_file::Written;
use super::values::small;
use crate::error::Result;
use crate::value::signed;

nccl_events::fields! {
    struct Details {
        stream: Stream,
        domain: RangeDomain,
        category: RangeCategory,
        color: RangeColor,
        payload: RangePayload,
        payload_signed: RangePayloadSigned,
        payload_float: RangePayloadFloat,
    }
}

impl<'a> Process<'a> {
    /// Writes the calls and ranges of threads, and the ranges that any thread ends.
    pub(super) fn threads(&self, locations: &[LocationRef]) -> Result<Vec<Written>> {
        let mut calls = self.files.create("calls", &self.folder);
        let mut ranges = self.files.create("ranges", &self.folder);
        for location in locations {
            let thread = self.trace.of_location(*location, ThreadId).map(signed);
            self.selection.nested_slices(*location, |slice, around| {
                let Some(region) = self.trace.region(slice.region) else {
                    return;
                };
                match region.class {
                    RegionClass::User | RegionClass::Mark => ranges.push(self.range(region, slice, around, thread)),
                    _ => calls.push(self.call(region, slice, thread)),
                }
            })?;
        }
        Ok([calls.close()?, ranges.close()?].into_iter().flatten().collect())
    }

    fn call(&self, region: RegionInfo<'a>, slice: &Slice, thread: Option<i64>) -> rows::Call<'a> {
        let fields = self.trace.fields_of(&slice.attributes);
        let details: Details<'_> = self.trace.read_fields(&slice.attributes);
        rows::Call {
            class: region.class.name(),
            function: region.name,
            thread,
            stream: details.stream.map(u64::cast_signed),
            bytes: fields.bytes.map(signed),
            count: fields.count.map(signed),
            datatype: fields.datatype,
            root: fields.root.map(small),
            peer: fields.peer.map(small),
            start_ns: signed(slice.start_ns),
            stop_ns: signed(slice.stop_ns),
            path: fields.ranges,
            unfinished: fields.is_unfinished == Some(true),
            event: fields.event.map(u64::cast_signed),
            parent: fields.parent.map(u64::cast_signed),
            location: slice.location.get().cast_signed(),
        }
    }

    fn range(&self, region: RegionInfo<'_>, slice: &Slice, around: &[Slice], thread: Option<i64>) -> rows::Range<'a> {
        let fields = self.trace.fields_of(&slice.attributes);
        let details: Details<'_> = self.trace.read_fields(&slice.attributes);
        let path = self.trace.path(around.iter().map(|it| it.region), slice.region);
        rows::Range {
            class: region.class.name(),
            domain: details.domain,
            name: self.region_name(slice.region),
            number: fields.range_number.map(u64::cast_signed),
            category: details.category,
            color: details.color.map(i64::from),
            payload: details.payload.map(u64::cast_signed).or(details.payload_signed),
            payload_float: details.payload_float,
            depth: i32::try_from(path.matches(PATH_SEPARATOR).count()).unwrap_or(i32::MAX),
            path,
            thread,
            start_ns: signed(slice.start_ns),
            stop_ns: signed(slice.stop_ns),
            unfinished: fields.is_unfinished == Some(true),
            location: slice.location.get().cast_signed(),
        }
    }
}
