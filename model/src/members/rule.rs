/// How the world decides: as the library, or with a planted bug.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// As the library.
    Library,
    /// Planted: a note is mature at once.
    MatureAtOnce,
    /// Planted: a majority of mature notes and exact records founds, not all of them.
    MajorityFounds,
    /// Planted: a record votes for clients of any list that has the node.
    NoLists,
    /// Planted: one server is exchanged in one change.
    Exchange,
    /// Planted: the next phase begins as soon as the last one is confirmed.
    NoWait,
    /// Planted: a majority of the list that stays confirms.
    MajorityConfirms,
    /// Planted: the operator writes a phase over any earlier one.
    SeveralPhases,
    /// Planted: a node is back in by a majority of any records, of which the newest has the list.
    AnyRecords,
    /// Planted: founding counts records that have a list more, and writes such a record.
    ChangeFounds,
    /// Planted: a note of any list serves to found.
    AnyNoteFounds,
    /// Planted: a majority takes a node back by the note of another list, and leaves the list there.
    NotTakenOver,
    /// Planted: a note of an earlier run counts.
    NoteOutlivesRun,
    /// Planted: a record of an earlier run counts.
    RecordOutlivesRun,
    /// Planted: a node is admitted although the note is another now.
    LateUnguarded,
    /// Planted: a record bears no label.
    RecordWithoutLabel,
    /// Planted: a note bears no label.
    NoteWithoutLabel,
    /// Planted: a foreign record with another label is as good as none.
    AliasIsNone,
}
