//! The global definitions of an archive.

use std::ptr::NonNull;

use otf2_sys as sys;

use crate::defined::Defined;
use crate::error::{self, Result, check, check_all, refused};
use crate::handle::{Handle, c_string};
use crate::records::{
    Attribute, ClockProperties, Comm, Group, Location, LocationGroup, MetricClass, MetricMember,
    ParadigmRecord, Parameter, Region, RmaWin, SystemTreeNode,
};
use crate::{
    AttributeRef, AttributeType, CommRef, DEFINITIONS_CHUNK_BYTES, GroupRef, GroupType,
    LocationGroupRef, LocationRef, MetricMemberRef, MetricRef, Paradigm, ParameterRef, RegionRef,
    RmaWinRef, StringRef, SystemTreeNodeRef,
};

/// Writes the global definitions.
///
/// References of a kind are given in order, 0, 1, 2 and so on, because readers complain about anything else;
/// only those of locations are free. What a definition refers to is defined before it. All this is checked
/// here, and an error leaves the archive as it was.
pub struct GlobalDefinitions<'a> {
    handle: &'a mut Handle,
    writer: NonNull<sys::OTF2_GlobalDefWriter>,
    defined: &'a mut Defined,
    failed: &'a mut bool,
}

// SAFETY: `writer` is only reachable through this value, which has the handle to itself, and libotf2 allows a
// writer to move between threads that use it one after the other.
unsafe impl Send for GlobalDefinitions<'_> {}

/// What an archive remembers of its global definitions between two uses of their writer.
#[derive(Default)]
pub(crate) struct DefinitionState {
    writer: Option<NonNull<sys::OTF2_GlobalDefWriter>>,
    defined: Defined,
    failed: bool,
}

// SAFETY: the pointer is used only together with the handle of the archive it came from, which `ArchiveWriter`
// keeps next to it and lends out as a whole.
unsafe impl Send for DefinitionState {}

impl DefinitionState {
    pub(crate) fn close(&mut self, handle: &mut Handle) -> Result<()> {
        let Some(writer) = self.writer.take().filter(|_| !self.failed) else {
            return Ok(());
        };
        let archive = handle.archive()?;
        error::forget();
        // SAFETY: archive and writer are open, and `take` makes this the writer's last use.
        let code = unsafe { sys::OTF2_Archive_CloseGlobalDefWriter(archive, writer.as_ptr()) };
        let result = check_all(code, || {
            format!("close the global definitions of the {}", handle.described())
        });
        let file = handle.global_definition_file();
        let result = result.and_then(|()| handle.write_full_chunk(&file, 0));
        if result.is_err() {
            handle.note_failure();
        }
        result
    }
}

impl<'a> GlobalDefinitions<'a> {
    pub(crate) fn new(handle: &'a mut Handle, state: &'a mut DefinitionState) -> Result<Self> {
        let operation = || "open the global definitions".to_owned();
        let archive = handle.archive()?;
        if state.failed {
            return Err(refused(operation(), "they could not be written before"));
        }
        let writer = match state.writer {
            Some(writer) => writer,
            None => {
                error::forget();
                // SAFETY: the archive is open, in write mode, primary, and has flush callbacks.
                let writer = unsafe { sys::OTF2_Archive_GetGlobalDefWriter(archive) };
                NonNull::new(writer).ok_or_else(|| error::null(operation()))?
            }
        };
        state.writer = Some(writer);
        Ok(Self {
            handle,
            writer,
            defined: &mut state.defined,
            failed: &mut state.failed,
        })
    }

    /// Checks the result of a libotf2 call whose arguments are good, so that a failure is one of the file.
    fn written(&mut self, code: sys::OTF2_ErrorCode, operation: &str) -> Result<()> {
        let result = check(code, || operation.to_owned());
        if result.is_err() {
            *self.failed = true;
            self.handle.give_up();
        }
        result
    }

    fn usable(&self, operation: &str) -> Result<()> {
        if *self.failed {
            return Err(refused(
                operation,
                "the definitions could not be written before",
            ));
        }
        Ok(())
    }

    /// The locations defined so far, in no particular order: each of them needs an event file.
    pub fn locations(&self) -> impl Iterator<Item = LocationRef> {
        self.defined.locations()
    }

    /// Whether the clock properties are written: an archive needs them.
    #[must_use]
    pub fn has_clock_properties(&self) -> bool {
        self.defined.has_clock()
    }

    /// Defines the clock. Once.
    ///
    /// # Errors
    ///
    /// When it is defined already, or a clock with these properties cannot be.
    pub fn clock_properties(&mut self, clock: &ClockProperties) -> Result<()> {
        let by = "define the clock properties";
        self.usable(by)?;
        if clock.timer_resolution == 0 {
            return Err(refused(
                by,
                "the timer resolution is ticks per second, and not 0",
            ));
        }
        if clock
            .global_offset
            .checked_add(clock.trace_length)
            .is_none()
        {
            return Err(refused(
                by,
                "global offset + trace length is after the end of time",
            ));
        }
        self.defined.clock()?;
        // SAFETY: the writer is open and takes numbers.
        let code = unsafe {
            sys::OTF2_GlobalDefWriter_WriteClockProperties(
                self.writer.as_ptr(),
                clock.timer_resolution,
                clock.global_offset,
                clock.trace_length,
                clock.realtime_timestamp,
            )
        };
        self.written(code, by)
    }

    /// Defines a string.
    ///
    /// # Errors
    ///
    /// When the reference is not the next one, the text has a NUL byte, or it is larger than a chunk.
    pub fn string(&mut self, reference: StringRef, text: &str) -> Result<()> {
        let by = format!("define {reference:?}");
        self.usable(&by)?;
        let c_text = c_string(text.as_bytes(), || by.clone())?;
        fits(&by, text.len())?;
        self.defined.next_string(reference)?;
        // SAFETY: the writer is open; libotf2 copies the NUL-terminated string.
        let code = unsafe {
            sys::OTF2_GlobalDefWriter_WriteString(
                self.writer.as_ptr(),
                reference.get(),
                c_text.as_ptr(),
            )
        };
        self.written(code, &by)
    }

    /// Defines an attribute.
    ///
    /// # Errors
    ///
    /// See [`GlobalDefinitions`].
    pub fn attribute(&mut self, reference: AttributeRef, attribute: &Attribute) -> Result<()> {
        let by = format!("define {reference:?}");
        self.usable(&by)?;
        self.defined.string(&by, attribute.name)?;
        self.defined.optional_string(&by, attribute.description)?;
        self.defined.next_attribute(reference)?;
        // SAFETY: the writer is open and takes numbers.
        let code = unsafe {
            sys::OTF2_GlobalDefWriter_WriteAttribute(
                self.writer.as_ptr(),
                reference.get(),
                attribute.name.get(),
                attribute.description.get(),
                attribute.attribute_type.raw(),
            )
        };
        self.written(code, &by)
    }

    /// Defines a node of the system tree, with its domains and properties.
    ///
    /// # Errors
    ///
    /// See [`GlobalDefinitions`].
    pub fn system_tree_node(
        &mut self,
        reference: SystemTreeNodeRef,
        node: &SystemTreeNode,
    ) -> Result<()> {
        let by = format!("define {reference:?}");
        self.usable(&by)?;
        self.defined.string(&by, node.name)?;
        self.defined.string(&by, node.class_name)?;
        if node.parent.is_defined() {
            self.defined.system_tree_node(&by, node.parent)?;
        }
        self.defined.properties(&by, &node.properties)?;
        self.defined.next_system_tree_node(reference)?;
        // SAFETY: the writer is open and takes numbers.
        let code = unsafe {
            sys::OTF2_GlobalDefWriter_WriteSystemTreeNode(
                self.writer.as_ptr(),
                reference.get(),
                node.name.get(),
                node.class_name.get(),
                node.parent.get(),
            )
        };
        self.written(code, &by)?;
        for domain in &node.domains {
            let (writer, node) = (self.writer.as_ptr(), reference.get());
            // SAFETY: the writer is open and takes numbers.
            let code = unsafe {
                sys::OTF2_GlobalDefWriter_WriteSystemTreeNodeDomain(writer, node, domain.raw())
            };
            self.written(code, &by)?;
        }
        for (name, value) in &node.properties {
            // SAFETY: the writer is open and takes numbers; the value has the type that goes with it.
            let code = unsafe {
                sys::OTF2_GlobalDefWriter_WriteSystemTreeNodeProperty(
                    self.writer.as_ptr(),
                    reference.get(),
                    name.get(),
                    value.attribute_type().raw(),
                    value.to_raw(),
                )
            };
            self.written(code, &by)?;
        }
        Ok(())
    }

    /// Defines a location group, with its properties.
    ///
    /// # Errors
    ///
    /// See [`GlobalDefinitions`].
    pub fn location_group(
        &mut self,
        reference: LocationGroupRef,
        group: &LocationGroup,
    ) -> Result<()> {
        let by = format!("define {reference:?}");
        self.usable(&by)?;
        self.defined.string(&by, group.name)?;
        self.defined
            .system_tree_node(&by, group.system_tree_parent)?;
        if group.creator.is_defined() {
            self.defined.location_group(&by, group.creator)?;
        }
        self.defined.properties(&by, &group.properties)?;
        self.defined.next_location_group(reference)?;
        // SAFETY: the writer is open and takes numbers.
        let code = unsafe {
            sys::OTF2_GlobalDefWriter_WriteLocationGroup(
                self.writer.as_ptr(),
                reference.get(),
                group.name.get(),
                group.group_type.raw(),
                group.system_tree_parent.get(),
                group.creator.get(),
            )
        };
        self.written(code, &by)?;
        for (name, value) in &group.properties {
            // SAFETY: the writer is open and takes numbers; the value has the type that goes with it.
            let code = unsafe {
                sys::OTF2_GlobalDefWriter_WriteLocationGroupProperty(
                    self.writer.as_ptr(),
                    reference.get(),
                    name.get(),
                    value.attribute_type().raw(),
                    value.to_raw(),
                )
            };
            self.written(code, &by)?;
        }
        Ok(())
    }

    /// Defines a location, with its properties. The archive then has this location, and needs its event file.
    ///
    /// # Errors
    ///
    /// See [`GlobalDefinitions`].
    pub fn location(&mut self, reference: LocationRef, location: &Location) -> Result<()> {
        let by = format!("define {reference:?}");
        self.usable(&by)?;
        self.defined.string(&by, location.name)?;
        self.defined.location_group(&by, location.group)?;
        self.defined.properties(&by, &location.properties)?;
        self.defined.next_location(reference)?;
        // SAFETY: the writer is open and takes numbers.
        let code = unsafe {
            sys::OTF2_GlobalDefWriter_WriteLocation(
                self.writer.as_ptr(),
                reference.get(),
                location.name.get(),
                location.location_type.raw(),
                location.number_of_events,
                location.group.get(),
            )
        };
        self.written(code, &by)?;
        for (name, value) in &location.properties {
            // SAFETY: the writer is open and takes numbers; the value has the type that goes with it.
            let code = unsafe {
                sys::OTF2_GlobalDefWriter_WriteLocationProperty(
                    self.writer.as_ptr(),
                    reference.get(),
                    name.get(),
                    value.attribute_type().raw(),
                    value.to_raw(),
                )
            };
            self.written(code, &by)?;
        }
        Ok(())
    }

    /// Defines a region.
    ///
    /// # Errors
    ///
    /// See [`GlobalDefinitions`].
    pub fn region(&mut self, reference: RegionRef, region: &Region) -> Result<()> {
        let by = format!("define {reference:?}");
        self.usable(&by)?;
        self.defined.string(&by, region.name)?;
        self.defined.optional_string(&by, region.canonical_name)?;
        self.defined.optional_string(&by, region.description)?;
        self.defined.optional_string(&by, region.source_file)?;
        self.defined.next_region(reference)?;
        // SAFETY: the writer is open and takes numbers.
        let code = unsafe {
            sys::OTF2_GlobalDefWriter_WriteRegion(
                self.writer.as_ptr(),
                reference.get(),
                region.name.get(),
                region.canonical_name.get(),
                region.description.get(),
                region.role.raw(),
                region.paradigm.raw(),
                region.flags.0,
                region.source_file.get(),
                region.begin_line,
                region.end_line,
            )
        };
        self.written(code, &by)
    }

    /// Defines a group. Its members are defined, or indices into the group of communicating locations of its
    /// paradigm, by its type.
    ///
    /// # Errors
    ///
    /// See [`GlobalDefinitions`].
    pub fn group(&mut self, reference: GroupRef, group: &Group) -> Result<()> {
        let by = format!("define {reference:?}");
        self.usable(&by)?;
        self.defined.string(&by, group.name)?;
        fits(
            &by,
            group
                .members
                .iter()
                .map(|member| compressed_size(*member))
                .sum(),
        )?;
        let Ok(count) = u32::try_from(group.members.len()) else {
            return Err(refused(by, "a group has at most 4294967295 members"));
        };
        self.defined
            .next_group(reference, group.group_type, group.paradigm, &group.members)?;
        // SAFETY: the writer is open and takes numbers; the array has `count` elements.
        let code = unsafe {
            sys::OTF2_GlobalDefWriter_WriteGroup(
                self.writer.as_ptr(),
                reference.get(),
                group.name.get(),
                group.group_type.raw(),
                group.paradigm.raw(),
                group.flags,
                count,
                group.members.as_ptr(),
            )
        };
        self.written(code, &by)
    }

    /// Defines a communicator.
    ///
    /// # Errors
    ///
    /// See [`GlobalDefinitions`]; also when its group is not one of a communicator, or it has flags.
    pub fn comm(&mut self, reference: CommRef, comm: &Comm) -> Result<()> {
        let by = format!("define {reference:?}");
        self.usable(&by)?;
        self.defined.optional_string(&by, comm.name)?;
        match self.defined.group(&by, comm.group)? {
            GroupType::CommGroup | GroupType::CommSelf => {}
            other => return Err(refused(by, format!("its group has the type {other:?}"))),
        }
        if comm.parent.is_defined() {
            self.defined.comm(&by, comm.parent)?;
        }
        if comm.flags != sys::OTF2_COMM_FLAG_NONE {
            return Err(refused(by, "its flags promise events that are not written"));
        }
        self.defined.next_comm(reference)?;
        // SAFETY: the writer is open and takes numbers.
        let code = unsafe {
            sys::OTF2_GlobalDefWriter_WriteComm(
                self.writer.as_ptr(),
                reference.get(),
                comm.name.get(),
                comm.group.get(),
                comm.parent.get(),
                comm.flags,
            )
        };
        self.written(code, &by)
    }

    /// Defines a window of remote memory access.
    ///
    /// # Errors
    ///
    /// See [`GlobalDefinitions`]; also when it has flags.
    pub fn rma_win(&mut self, reference: RmaWinRef, win: &RmaWin) -> Result<()> {
        let by = format!("define {reference:?}");
        self.usable(&by)?;
        self.defined.string(&by, win.name)?;
        self.defined.comm(&by, win.comm)?;
        if win.flags != sys::OTF2_RMA_WIN_FLAG_NONE {
            return Err(refused(by, "its flags promise events that are not written"));
        }
        self.defined.next_rma_win(reference)?;
        let (writer, name, comm) = (self.writer.as_ptr(), win.name.get(), win.comm.get());
        // SAFETY: the writer is open and takes numbers.
        let code = unsafe {
            sys::OTF2_GlobalDefWriter_WriteRmaWin(writer, reference.get(), name, comm, win.flags)
        };
        self.written(code, &by)
    }

    /// Defines one value of metric classes.
    ///
    /// # Errors
    ///
    /// See [`GlobalDefinitions`]; also when its value type is not `U64`, `I64` or `F64`.
    pub fn metric_member(
        &mut self,
        reference: MetricMemberRef,
        member: &MetricMember,
    ) -> Result<()> {
        let by = format!("define {reference:?}");
        self.usable(&by)?;
        self.defined.string(&by, member.name)?;
        self.defined.optional_string(&by, member.description)?;
        self.defined.optional_string(&by, member.unit)?;
        if !matches!(
            member.value_type,
            AttributeType::U64 | AttributeType::I64 | AttributeType::F64
        ) {
            return Err(refused(
                by,
                format!("{:?} is no type for metric values", member.value_type),
            ));
        }
        self.defined.next_metric_member(reference)?;
        // SAFETY: the writer is open and takes numbers.
        let code = unsafe {
            sys::OTF2_GlobalDefWriter_WriteMetricMember(
                self.writer.as_ptr(),
                reference.get(),
                member.name.get(),
                member.description.get(),
                member.metric_type.raw(),
                member.mode.raw(),
                member.value_type.raw(),
                member.base.raw(),
                member.exponent,
                member.unit.get(),
            )
        };
        self.written(code, &by)
    }

    /// Defines a metric class.
    ///
    /// # Errors
    ///
    /// See [`GlobalDefinitions`]; also when it has no members, or more than 255.
    pub fn metric_class(&mut self, reference: MetricRef, class: &MetricClass) -> Result<()> {
        let by = format!("define {reference:?}");
        self.usable(&by)?;
        let Some(count) = u8::try_from(class.members.len())
            .ok()
            .filter(|count| *count > 0)
        else {
            return Err(refused(by, "a metric class has 1 to 255 members"));
        };
        for member in &class.members {
            self.defined.metric_member(&by, *member)?;
        }
        let members: Vec<u32> = class.members.iter().map(|member| member.get()).collect();
        self.defined.next_metric(reference)?;
        // SAFETY: the writer is open and takes numbers; the array has `count` elements.
        let code = unsafe {
            sys::OTF2_GlobalDefWriter_WriteMetricClass(
                self.writer.as_ptr(),
                reference.get(),
                count,
                members.as_ptr(),
                class.occurrence.raw(),
                class.recorder_kind.raw(),
            )
        };
        self.written(code, &by)
    }

    /// Defines a parameter.
    ///
    /// # Errors
    ///
    /// See [`GlobalDefinitions`].
    pub fn parameter(&mut self, reference: ParameterRef, parameter: &Parameter) -> Result<()> {
        let by = format!("define {reference:?}");
        self.usable(&by)?;
        self.defined.string(&by, parameter.name)?;
        self.defined.next_parameter(reference)?;
        // SAFETY: the writer is open and takes numbers.
        let code = unsafe {
            sys::OTF2_GlobalDefWriter_WriteParameter(
                self.writer.as_ptr(),
                reference.get(),
                parameter.name.get(),
                parameter.parameter_type.raw(),
            )
        };
        self.written(code, &by)
    }

    /// Names a paradigm and says how it works, with its properties. Once for each paradigm.
    ///
    /// # Errors
    ///
    /// See [`GlobalDefinitions`].
    pub fn paradigm(&mut self, paradigm: Paradigm, record: &ParadigmRecord) -> Result<()> {
        let by = format!("define the paradigm {paradigm:?}");
        self.usable(&by)?;
        self.defined.string(&by, record.name)?;
        for (_, value) in &record.properties {
            self.defined.value(&by, *value)?;
        }
        self.defined.next_paradigm(paradigm)?;
        // SAFETY: the writer is open and takes numbers.
        let code = unsafe {
            sys::OTF2_GlobalDefWriter_WriteParadigm(
                self.writer.as_ptr(),
                paradigm.raw(),
                record.name.get(),
                record.class.raw(),
            )
        };
        self.written(code, &by)?;
        for (property, value) in &record.properties {
            // SAFETY: the writer is open and takes numbers; the value has the type that goes with it.
            let code = unsafe {
                sys::OTF2_GlobalDefWriter_WriteParadigmProperty(
                    self.writer.as_ptr(),
                    paradigm.raw(),
                    property.raw(),
                    value.attribute_type().raw(),
                    value.to_raw(),
                )
            };
            self.written(code, &by)?;
        }
        Ok(())
    }
}

/// A definition is written into one chunk; what it has besides its text or members takes less than this.
const REST_BYTES: usize = 256;

fn fits(by: &str, bytes: usize) -> Result<()> {
    let limit = usize::try_from(DEFINITIONS_CHUNK_BYTES).unwrap_or(usize::MAX) - REST_BYTES;
    if bytes <= limit {
        return Ok(());
    }
    Err(refused(
        by,
        format!("it takes {bytes} bytes, a definition has at most {limit}"),
    ))
}

/// libotf2 writes a number as one byte that says how many follow, and those that are not leading zeros.
fn compressed_size(number: u64) -> usize {
    let bytes = 8 - number.leading_zeros() / 8;
    1 + usize::try_from(bytes).unwrap_or(8)
}
