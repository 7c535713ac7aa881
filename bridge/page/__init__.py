"""The page: a picture of the running pipeline for people, and a few of the operator's commands.

Nothing is computed and nothing subscribed while nobody looks, except a sample of every backlog each ten seconds.

access        who may look, and who may change something
assets        the files of the page
history       backlogs of the last hour
picture       the state of the bridge, with rates, as JSON
server        serves the files, the event stream and the commands
stream        server-sent events to a viewer
tail          records as a sink gets them, by a viewer's choice
viewers       who looks, and what each is sent; works only while someone looks
"""
