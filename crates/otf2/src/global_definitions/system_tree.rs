//! Where things ran: system tree, location groups, locations.

use otf2_sys as sys;

use super::GlobalDefinitions;
use crate::error::Result;
use crate::records::{Location, LocationGroup, SystemTreeNode};
use crate::{LocationGroupRef, LocationRef, SystemTreeNodeRef};

impl GlobalDefinitions<'_> {
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
}
