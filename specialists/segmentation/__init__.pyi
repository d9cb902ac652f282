from .regions import Felzenszwalb as Felzenszwalb, Slic as Slic
