use std::fmt;

use super::MemberList;

/// The name of a program's connections to the nodes of a quorum, as `CLIENT LIST` shows it:
/// `NAME;list=LABEL,LABEL,...;by=PROGRAM`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientName {
    name: String,
    list: String,
    by: String,
}

impl ClientName {
    /// Of a program with this list; `by` is its label.
    pub fn new(name: &str, list: &MemberList, by: Option<&str>) -> Self {
        Self { name: plain(name), list: Self::list_of(list), by: plain(by.unwrap_or_default()) }
    }

    /// Reads the form that its `Display` writes; `None` if the name tells no list.
    pub fn parse(name: &str) -> Option<Self> {
        let (name, rest) = name.split_once(LIST)?;
        let (list, by) = rest.split_once(BY)?;
        Some(Self { name: name.to_owned(), list: list.to_owned(), by: by.to_owned() })
    }

    /// Whether the program has this list.
    pub fn has(&self, list: &MemberList) -> bool {
        self.list == Self::list_of(list)
    }

    /// The program's list: the labels with commas between them.
    pub fn list(&self) -> &str {
        &self.list
    }

    /// The program's label; empty if it has none.
    pub fn by(&self) -> &str {
        &self.by
    }

    fn list_of(list: &MemberList) -> String {
        plain(&list.labels().join(","))
    }
}

const LIST: &str = ";list=";
const BY: &str = ";by=";

/// A server takes no other characters in the name of a connection.
fn plain(text: &str) -> String {
    text.chars().map(|c| if c.is_ascii_graphic() { c } else { '_' }).collect()
}

impl fmt::Display for ClientName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, list, by } = self;
        write!(f, "{name}{LIST}{list}{BY}{by}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_tells_the_list_and_the_program() {
        let list = MemberList::new(["r2:6379/0", "[::1]:6379/0"]);
        let name = ClientName::new("quorumlock:1", &list, Some("a web\u{e9}:4711"));
        let text = name.to_string();
        assert_eq!(text, "quorumlock:1;list=[::1]:6379/0,r2:6379/0;by=a_web_:4711");
        let read = ClientName::parse(&text).expect("a list");
        assert!(read == name && read.has(&list) && !read.has(&MemberList::new(["r2:6379/0"])));
        assert_eq!((read.by(), ClientName::parse("quorumlock:1")), ("a_web_:4711", None));
    }
}
