//! Who communicates: paradigms, groups, communicators, windows.

use otf2_sys as sys;

use super::{GlobalDefinitions, fits};
use crate::error::{Result, refused};
use crate::records::{Comm, Group, ParadigmRecord, RmaWin};
use crate::{CommRef, GroupRef, GroupType, Paradigm, RmaWinRef};

impl GlobalDefinitions<'_> {
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
            self.chunk_bytes(),
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

/// libotf2 writes a number as one byte that says how many follow, and those that are not leading zeros.
fn compressed_size(number: u64) -> usize {
    let bytes = 8 - number.leading_zeros() / 8;
    1 + usize::try_from(bytes).unwrap_or(8)
}
