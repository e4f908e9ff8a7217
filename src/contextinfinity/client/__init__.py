"""The client interface that the command line, the server and the terminal UI share.

``contract`` defines the client's resources, ``results`` its return values; ``local`` implements them with an engine in
this process, ``remote`` with a server.
"""
