//! What the library writes to the log, and its spans.

use std::fmt::{Debug, Write as _};
use std::sync::{Arc, Mutex, MutexGuard};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};
use tracing_subscriber::Registry;
use tracing_subscriber::layer::{Context, Layer, SubscriberExt as _};
use tracing_subscriber::registry::LookupSpan;

/// The warnings and the spans of the library, where its subscriber listens.
#[derive(Clone, Debug, Default)]
pub struct Log(Arc<Mutex<Heard>>);

#[derive(Debug, Default)]
struct Heard {
    warnings: Vec<String>,
    infos: Vec<String>,
    spans: Vec<Told>,
}

/// A span.
#[derive(Clone, Debug)]
pub struct Told {
    /// Its name.
    pub name: &'static str,
    /// The number of the span in which it was made.
    pub parent: Option<usize>,
    /// Its fields, as ` field=value ` one behind the other.
    pub fields: String,
    /// Whether it has ended.
    pub ended: bool,
    id: Id,
}

impl Log {
    /// What passes everything on to this log.
    pub fn subscriber(&self) -> impl Subscriber + Send + Sync + 'static {
        Registry::default().with(self.clone())
    }

    /// All warnings so far.
    pub fn warnings(&self) -> Vec<String> {
        self.heard().warnings.clone()
    }

    /// All events of the level info so far.
    pub fn infos(&self) -> Vec<String> {
        self.heard().infos.clone()
    }

    /// Forgets the warnings so far.
    pub fn clear(&self) {
        self.heard().warnings.clear();
    }

    /// All spans so far, in the order in which they were made.
    pub fn spans(&self) -> Vec<Told> {
        self.heard().spans.clone()
    }

    fn heard(&self) -> MutexGuard<'_, Heard> {
        self.0.lock().expect("no panic")
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Log {
    fn enabled(&self, metadata: &Metadata<'_>, _: Context<'_, S>) -> bool {
        let wanted = metadata.is_span() || [Level::WARN, Level::INFO].contains(metadata.level());
        wanted && metadata.target().starts_with("quorumlock")
    }

    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut text = Text::default();
        event.record(&mut text);
        let mut heard = self.heard();
        match *event.metadata().level() {
            Level::WARN => heard.warnings.push(text.0),
            _ => heard.infos.push(text.0),
        }
    }

    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let mut text = Text::default();
        attributes.record(&mut text);
        let parent = context.span(id).and_then(|span| Some(span.parent()?.id()));
        let mut heard = self.heard();
        let told = Told {
            name: attributes.metadata().name(),
            parent: parent.and_then(|parent| heard.number(&parent)),
            fields: text.0,
            ended: false,
            id: id.clone(),
        };
        heard.spans.push(told);
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, _: Context<'_, S>) {
        let mut text = Text::default();
        values.record(&mut text);
        let mut heard = self.heard();
        if let Some(number) = heard.number(id) {
            heard.spans[number].fields.push_str(&text.0);
        }
    }

    fn on_close(&self, id: Id, _: Context<'_, S>) {
        let mut heard = self.heard();
        if let Some(number) = heard.number(&id) {
            heard.spans[number].ended = true;
        }
    }
}

impl Heard {
    /// The number of the span that has this id now.
    fn number(&self, id: &Id) -> Option<usize> {
        self.spans.iter().rposition(|told| told.id == *id)
    }
}

#[derive(Default)]
struct Text(String);

impl Visit for Text {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let _ = write!(self.0, " {}={value:?} ", field.name());
    }
}
